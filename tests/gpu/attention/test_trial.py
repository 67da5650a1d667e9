"""Kernels are tried before they answer, and their faults are named."""

import logging
from collections.abc import Callable

import pytest
import torch

from legato.gpu.attention import Geometry, choice, choose_attention
from legato.gpu.attention.kernel import Call, KernelAttention
from legato.gpu.attention.offer import Offer
from legato.gpu.attention.part import Part
from legato.gpu.attention.trial import find_fault
from legato.protocol.errors import InvalidSetting

from .candidates import EMULATED, FLASH_2, over

CPU = torch.device("cpu")
HALF = Geometry(4, 2, 16, torch.bfloat16, (0, 4096))
Change = Callable[[Call], Call]


def offer_of(call: Call) -> Offer:
    return Offer("a kernel", over(call, splits=True), rank=9, is_tried=True)


@pytest.mark.parametrize("name", EMULATED)
def test_a_kernel_that_is_right_passes(name: str) -> None:
    builder, sizes, _ = EMULATED[name]
    offer = Offer("a kernel", builder, is_tried=True)
    assert find_fault(offer, HALF, CPU, sizes[0]) == ""


def without_window(call: Call) -> Call:
    return lambda q, keys, values, part, window: call(q, keys, values, part, 0)


def off_by_one(call: Call) -> Call:
    def wrong(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, part: Part, window: int
    ) -> torch.Tensor:
        return call(q, k, v, part, window + 1 if window else 0)

    return wrong


def swapped(call: Call) -> Call:
    return lambda q, keys, values, part, window: call(q, values, keys, part, window)


def frozen(call: Call) -> Call:
    """Takes a static step's rows for what they were at first."""
    seen: dict[int, torch.Tensor] = {}

    def wrong(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, part: Part, window: int
    ) -> torch.Tensor:
        if len(part.counts) != 3:
            return call(q, k, v, part, window)
        return seen.setdefault(window, torch.zeros_like(q))

    return wrong


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without_window, "with a window of 5 it is off"),
        (off_by_one, "with a window of 5 it is off"),
        (swapped, "without a window it is off"),
        (frozen, "without a window its static step is off"),
    ],
)
def test_a_kernel_that_is_wrong_is_found_out(change: Change, told: str) -> None:
    assert told in find_fault(offer_of(change(FLASH_2)), HALF, CPU, 256)


def failing(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, part: Part, window: int
) -> torch.Tensor:
    raise RuntimeError("no kernel image\nis available")


def test_what_fails_its_trial_is_passed_over_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = "a kernel failed its trial: RuntimeError: no kernel image is available"
    offers = (offer_of(failing), offer_of(without_window(FLASH_2)))
    monkeypatch.setitem(choice.ATTENTION_BACKENDS, "broken", lambda device: offers)
    with caplog.at_level(logging.WARNING):
        assert choose_attention("auto", HALF, CPU).name == "paged"
    assert f"no attention broken: {told}" in caplog.text
    with pytest.raises(InvalidSetting, match=f"{told}; .* off by .*auto or paged"):
        choose_attention("broken", HALF, CPU, 256)


def test_the_next_package_is_tried_where_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offers = (offer_of(failing), offer_of(FLASH_2))
    monkeypatch.setitem(choice.ATTENTION_BACKENDS, "flash", lambda device: offers)
    for name in ("auto", "flash"):
        chosen = choose_attention(name, HALF, CPU, 256)
        assert (chosen.name, chosen.offer) == ("flash", offers[1])


def test_a_backend_that_cannot_be_built_is_passed_over() -> None:
    def build(*_: object) -> KernelAttention:
        raise ImportError("undefined symbol: x")

    offer = Offer("a kernel", build, is_tried=True)
    assert find_fault(offer, HALF, CPU, 16) == "ImportError: undefined symbol: x"
