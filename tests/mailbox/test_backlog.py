"""What waits to cross merged: nothing lost, nothing too long, at a linear cost."""

from collections.abc import Callable

import pytest

from legato.mailbox.backlog import MAX_MERGED_BYTES, Backlog


class Encoder:
    """Encodes texts, and counts."""

    def __init__(self) -> None:
        self.calls = self.size = 0

    def __call__(self, text: str) -> bytes:
        self.calls += 1
        self.size += len(text)
        return text.encode()


def make(
    merge: Callable[[str, str], str], limit: int = 64
) -> tuple[Backlog[str], Encoder]:
    encoder = Encoder()
    backlog = Backlog(merge, encoder)
    backlog.begin(limit)
    return backlog, encoder


def take_all(backlog: Backlog[str]) -> list[str]:
    taken: list[str] = []
    while backlog:
        taken.append(backlog.pop().decode())
    return taken


def join(older: str, newer: str) -> str:
    return older + newer


def test_what_fits_together_is_one_message_encoded_once() -> None:
    backlog, encoder = make(join)
    for text in "abc":
        backlog.add(text, 1)
    assert len(backlog) == 1
    assert take_all(backlog) == ["abc"]
    assert encoder.calls == 1


def test_one_as_long_as_may_be_is_a_message_of_its_own() -> None:
    backlog, _ = make(join)
    for text in ("a", "b" * 64, "c"):
        backlog.add(text, len(text))
    assert take_all(backlog) == ["a", "b" * 64, "c"]


def test_a_long_one_over_the_bound_of_merging_still_crosses() -> None:
    backlog, _ = make(join, 4 * MAX_MERGED_BYTES)
    texts = ["a", "b" * 3 * MAX_MERGED_BYTES, "c", "d"]
    for text in texts:
        backlog.add(text, len(text))
    assert take_all(backlog) == ["a", texts[1], "cd"]


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_the_cost_is_linear_and_the_content_whole(count: int) -> None:
    backlog, encoder = make(join, 4096)
    texts = [f"{number}," * (number % 40) for number in range(count)]
    for text in texts:
        backlog.add(text, len(text))
    taken = take_all(backlog)
    assert "".join(taken) == "".join(texts)
    assert max(map(len, taken)) <= 4096
    assert encoder.calls == len(taken)
    assert encoder.size == len("".join(texts))


def test_what_is_superseded_takes_no_room() -> None:
    backlog, encoder = make(lambda older, newer: newer, 4096)
    for number in range(3_000):
        backlog.add(f"{number:0100}", 100)
        assert len(backlog) == 1
        assert len(backlog._parts) <= 4096 // 100
    assert take_all(backlog) == [f"{2_999:0100}"]
    assert encoder.size < 3_000 * 100


def test_a_merge_longer_than_its_parts_is_split() -> None:
    backlog, _ = make(lambda older, newer: f"{older}{'-' * 30}{newer}")
    for text in "abcdef":
        backlog.add(text, 1)
    taken = take_all(backlog)
    assert max(map(len, taken)) <= 64
    assert [c for c in "".join(taken) if c != "-"] == list("abcdef")


def test_a_merge_that_raises_leaves_what_waits() -> None:
    broken = [True]

    def merge(older: str, newer: str) -> str:
        if broken:
            raise ValueError("cannot merge")
        return older + newer

    backlog, _ = make(merge)
    for text in ("a" * 10, "b" * 10):
        backlog.add(text, 10)
    with pytest.raises(ValueError, match="cannot merge"):
        backlog.add("c" * 30, 30)
    broken.clear()
    assert take_all(backlog) == ["a" * 10 + "b" * 10]
