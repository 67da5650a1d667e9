"""Which backend is chosen, and the reasons given."""

import pytest
import torch

from legato.gpu.attention import Geometry, available, choice, choose_attention
from legato.gpu.attention.offer import Offer
from legato.gpu.attention.reference import ReferenceAttention
from legato.protocol.errors import InvalidSetting

CPU = torch.device("cpu")
TINY = Geometry(4, 2, 16, torch.float32)


def test_each_backend_says_whether_it_runs_and_why() -> None:
    found = available(CPU)
    assert [one.name for one in found] == ["paged", "native", "reference"]
    assert all(one.runs and one.page_size == 16 for one in found)


def test_auto_takes_the_first_that_runs() -> None:
    assert choose_attention("auto", TINY, CPU).name == "paged"
    assert choose_attention("reference", TINY, CPU, 4).page_size == 4


@pytest.mark.parametrize("name", ["warp", "gather"])
def test_a_backend_that_does_not_run_is_refused_with_those_that_do(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"'{name}' .*choose auto or paged or"):
        choose_attention(name, TINY, CPU)


def picky(device: torch.device) -> tuple[Offer, ...]:
    return (PICKY,)


PICKY = Offer(
    "a picky kernel",
    ReferenceAttention,
    rank=9,
    page_size=64,
    page_multiple=32,
    dtypes=(torch.bfloat16, torch.float16),
    head_multiple=8,
    most_head_dim=128,
    has_windows=False,
)


def half(head_dim: int = 64, windows: tuple[int, ...] = ()) -> Geometry:
    return Geometry(4, 2, head_dim, torch.bfloat16, windows)


@pytest.mark.parametrize(
    ("geometry", "page_size", "reason"),
    [
        (half(), 0, "a picky kernel"),
        (half(), 96, "a picky kernel"),
        (half(), 16, "not for pages of 16 tokens; it takes multiples of 32"),
        (TINY, 0, "not for float32; it computes in bfloat16 and float16"),
        (half(20), 0, "not for heads of 20; it takes multiples of 8 up to 128"),
        (half(256), 0, "not for heads of 256; it takes multiples of 8 up to 128"),
        (half(windows=(0, 9)), 0, "not for sliding windows, which it has not"),
    ],
)
def test_a_backend_serves_only_what_it_can(
    monkeypatch: pytest.MonkeyPatch, geometry: Geometry, page_size: int, reason: str
) -> None:
    monkeypatch.setitem(choice.ATTENTION_BACKENDS, "picky", picky)
    found = {one.name: one for one in available(CPU, geometry, page_size)}
    runs = reason == "a picky kernel"
    told = found["picky"].reason.removeprefix("a picky kernel: ")
    assert (found["picky"].runs, told) == (runs, reason)
    chosen = choose_attention("auto", geometry, CPU, page_size)
    assert (chosen.name == "picky") == runs
    assert chosen.page_size == (page_size or (64 if runs else 16))
