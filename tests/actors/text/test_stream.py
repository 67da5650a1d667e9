from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.stream import StreamText
from legato.protocol.steps import TokenLogprobs

STEADY = settings(max_examples=30, deadline=None, derandomize=True)


class Pieces:
    """A vocabulary whose tokens are the given byte strings."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]


PIECE = st.one_of(
    st.sampled_from(
        [b"", b"a", b"b", b"ab", b"ba", b"\xe2", b"\x82", b"\xac", b"\xff"]
    ),
    st.text("ab€🙂", max_size=3).map(str.encode),
    st.binary(max_size=3),
)
PIECES = st.lists(PIECE, max_size=14)
STOPS = st.lists(st.text("ab€\ufffd", min_size=1, max_size=3), max_size=3).map(tuple)


def characters(data: bytes) -> list[tuple[str, int, int]]:
    """List each character with the bytes it comes from, by the codec's own errors."""
    found: list[tuple[str, int, int]] = []
    start = 0
    while start < len(data):
        try:
            good, bad = data[start:].decode("utf-8"), 0
            stop = len(data)
        except UnicodeDecodeError as error:
            stop, bad = start + error.start, error.end - error.start
            good = data[start:stop].decode("utf-8")
        for character in good:
            size = len(character.encode())
            found.append((character, start, start + size))
            start += size
        if bad:
            found.append(("\ufffd", stop, stop + bad))
        start = stop + bad
    return found


def expected(
    pieces: Sequence[bytes], stops: Sequence[str], include_stop: bool
) -> tuple[str, int]:
    """Say the whole text and how many ids belong to it, by trying every place."""
    found = characters(b"".join(pieces))
    text = "".join(character for character, _, _ in found)
    for end in range(len(text) + 1):
        begins = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if begins:
            cut = end if include_stop else min(begins)
            break
    else:
        return text, len(pieces)
    # Bytes before the cut's first byte; a token that has one of them is kept, and so
    # is an empty one that stands before all others.
    limit = found[cut][1] if cut < len(found) else len(b"".join(pieces))
    kept = 0
    position = 0
    for piece in pieces:
        if position >= limit and (piece or position > limit or cut == end):
            break
        kept += 1
        position += len(piece)
    return text[:cut], kept


def run(
    pieces: Sequence[bytes],
    stops: tuple[str, ...],
    include_stop: bool,
    takes: Sequence[bool],
) -> tuple[str, tuple[int, ...], tuple[TokenLogprobs, ...], StreamText]:
    stream = StreamText(Pieces(pieces), stops, include_stop)
    text: str = ""
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    for token in range(len(pieces)):
        stream.push(token, TokenLogprobs(-float(token)))
        if takes[token % len(takes)] if takes else False:
            more, more_ids, more_logprobs = stream.take()
            text, ids, logprobs = text + more, ids + more_ids, logprobs + more_logprobs
    stream.finish()
    more, more_ids, more_logprobs = stream.take()
    return text + more, ids + more_ids, logprobs + more_logprobs, stream


@STEADY
@given(PIECES, STOPS, st.booleans(), st.lists(st.booleans(), max_size=6))
def test_takes_join_to_the_whole_text_cut_at_the_stop(
    pieces: list[bytes], stops: tuple[str, ...], include_stop: bool, takes: list[bool]
):
    text, ids, logprobs, stream = run(pieces, stops, include_stop, takes)
    whole, kept = expected(pieces, stops, include_stop)
    assert text == whole
    assert ids == tuple(range(kept))
    assert [it.chosen for it in logprobs] == [-float(token) for token in ids]
    assert stream.take() == ("", (), ())


@STEADY
@given(PIECES, STOPS, st.booleans())
def test_an_id_leaves_with_the_last_character_it_has_a_part_in(
    pieces: list[bytes], stops: tuple[str, ...], include_stop: bool
):
    stream = StreamText(Pieces(pieces), stops, include_stop)
    ends = [end for _, _, end in characters(b"".join(pieces))]
    text, count = "", 0
    for token in range(len(pieces)):
        stream.push(token, None)
        more, ids, logprobs = stream.take()
        text, count = text + more, count + len(ids)
        assert logprobs == ()
        if stream.stopped:
            return
        # Bytes behind the text so far, and the tokens wholly among them.
        shown = ends[len(text) - 1] if text else 0
        sizes = [len(piece) for piece in pieces[: token + 1]]
        whole = sum(1 for n in range(len(sizes)) if sum(sizes[: n + 1]) <= shown)
        assert count == whole


def test_a_character_over_three_tokens_leaves_with_all_three_ids():
    stream = StreamText(Pieces([b"\xe2", b"\x82", b"\xac"]))
    stream.push(0, None)
    assert stream.take() == ("", (), ())
    stream.push(1, None)
    assert stream.take() == ("", (), ())
    stream.push(2, None)
    assert stream.take() == ("€", (0, 1, 2), ())


def test_stopped_is_known_right_after_the_push_without_a_take():
    stream = StreamText(Pieces([b"on S", b"TO", b"P it", b"more"]), ("STOP",))
    stream.push(0, None)
    stream.push(1, None)
    assert not stream.stopped
    stream.push(2, None)
    assert stream.stopped
    stream.push(3, None)
    assert stream.take() == ("on ", (0,), ())


def test_tokens_wholly_inside_a_cut_stop_string_are_dropped_with_their_logprobs():
    stream = StreamText(Pieces([b"hello", b"ST", b"OP"]), ("STOP",))
    for token in range(3):
        stream.push(token, TokenLogprobs(-1.0 - token))
    assert stream.take() == ("hello", (0,), (TokenLogprobs(-1.0),))


def test_an_included_stop_string_leaves_with_its_tokens_but_not_what_follows_it():
    stream = StreamText(Pieces([b"hello", b"ST", b"OP it"]), ("STOP",), True)
    for token in range(3):
        stream.push(token, None)
    assert stream.take() == ("helloSTOP", (0, 1, 2), ())


def test_an_end_token_counts_but_gives_no_text():
    stream = StreamText(Pieces([b"yes", b"<end>"]), ("x",))
    stream.push(0, None)
    stream.push_end_token(1, TokenLogprobs(-0.5))
    stream.finish()
    assert stream.take() == ("yes", (0, 1), (TokenLogprobs(-0.5),))


@pytest.mark.parametrize("stops", [(), ("zz",)])
def test_finishing_shows_an_incomplete_character_and_its_ids(stops: tuple[str, ...]):
    stream = StreamText(Pieces([b"a\xf0", b"\x9f"]), stops)
    stream.push(0, None)
    stream.push(1, None)
    assert stream.take() == ("a", (), ())
    stream.finish()
    assert stream.take() == ("\ufffd", (0, 1), ())


def test_finishing_releases_a_possible_stop_string():
    stream = StreamText(Pieces([b"a ST"]), ("STOP",))
    stream.push(0, None)
    assert stream.take() == ("a ", (), ())
    stream.finish()
    assert not stream.stopped
    assert stream.take() == ("ST", (0,), ())


def test_the_last_incomplete_character_can_complete_a_stop_string():
    stream = StreamText(Pieces([b"ab\xe2"]), ("b\ufffd",))
    stream.push(0, None)
    stream.finish()
    assert stream.stopped
    assert stream.take() == ("a", (0,), ())
