"""Which FlashAttention package is taken, without a GPU."""

from types import SimpleNamespace

import pytest
import torch

from legato.gpu.attention import Geometry, available, flash, varlen
from legato.gpu.attention.offer import Offer
from legato.gpu.attention.trial import find_fault

from .emulated import flash_2_varlen, flash_2_with_kvcache
from .emulated_flash_3 import flash_3_scheduler_metadata, flash_3_with_kvcache

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
HALF = Geometry(4, 2, 64, torch.float16, (0, 4096))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A GPU's capability, and what is installed beside it."""
    pretended = SimpleNamespace(capability=(9, 0), installed=set[str]())
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda device: pretended.capability
    )
    monkeypatch.setattr(flash, "find_spec", lambda name: name in pretended.installed)
    return pretended


def test_the_newest_that_the_device_runs_is_taken(machine: SimpleNamespace) -> None:
    machine.installed = {"flash_attn", "flash_attn_interface"}
    third, plain, second = flash.look(CUDA)
    machine.capability = (8, 9)
    (ada,) = flash.look(CUDA)
    assert isinstance(third, Offer)
    assert isinstance(plain, Offer)
    assert isinstance(second, Offer)
    assert isinstance(ada, Offer)
    assert "FlashAttention 3" in third.what
    assert "FlashAttention 2" in ada.what
    assert third.rank > plain.rank > second.rank == ada.rank
    assert (ada.page_size, ada.page_multiple) == (256, 256)
    assert third.page_multiple == 1


@pytest.mark.parametrize(
    ("capability", "told"),
    [
        ((7, 5), "needs compute capability 8.0, this device has 7.5"),
        ((8, 0), "neither flash_attn nor flash_attn_interface is installed; install"),
        ((9, 0), "or FlashAttention 3 from its repository"),
    ],
)
def test_what_is_missing_is_said(
    machine: SimpleNamespace, capability: tuple[int, int], told: str
) -> None:
    machine.capability = capability
    assert told in str(flash.look(CUDA))


def test_on_a_gpu_the_fastest_comes_first_and_the_rest_say_why(
    machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.installed = {"flash_attn"}
    monkeypatch.setattr(varlen, "reads_tables", lambda version: True)
    names = [one.name for one in available(CUDA, HALF)]
    assert names[:2] == ["flash", "varlen"]
    assert names[-2:] == ["gather", "reference"]
    wide = Geometry(4, 2, 512, torch.float16)
    found = {one.name: one for one in available(CUDA, wide)}
    assert found["flash"].reason == (
        "FlashAttention 2 of the flash-attn package: "
        "not for heads of 512; it takes multiples of 8 up to 256"
    )
    assert found["gather"].runs
    small = {one.name: one.reason for one in available(CUDA, HALF, 16)}
    assert "it takes multiples of 256" in small["flash"]


def test_the_functions_of_the_packages_are_called_as_they_ask() -> None:
    module = SimpleNamespace(
        flash_attn_with_kvcache=flash_2_with_kvcache,
        flash_attn_varlen_func=flash_2_varlen,
    )
    second = flash.offer_2(lambda name: {"flash_attn": module}[name])
    assert find_fault(second, HALF, CPU, second.page_size) == ""
    module = SimpleNamespace(flash_attn_with_kvcache=flash_3_with_kvcache)
    imported = {"flash_attn_interface": module}.__getitem__
    third, plain = flash.offer_3(imported), flash.offer_3(imported, schedules=False)
    assert "get_scheduler_metadata" in find_fault(third, HALF, CPU, third.page_size)
    assert find_fault(plain, HALF, CPU, third.page_size) == ""
    module.get_scheduler_metadata = flash_3_scheduler_metadata
    assert find_fault(third, HALF, CPU, third.page_size) == ""


def test_whole_decodes_are_not_bounded_to_the_right() -> None:
    assert flash.bounds(0) == (-1, -1)
    assert flash.bounds(1) == (0, 0)
    assert flash.bounds(4096) == (4095, 0)
