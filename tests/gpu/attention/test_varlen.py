"""Which kernel torch would call, without a GPU."""

from inspect import signature
from typing import Any

import pytest
import torch
from torch.nn import attention

from legato.gpu.attention import Geometry, varlen
from legato.gpu.attention.offer import Offer
from legato.gpu.attention.trial import find_fault

from .emulated import Varlen

CUDA = torch.device("cuda", 0)
HALF = Geometry(4, 2, 64, torch.bfloat16, (0, 4096))
BY_NAME = {flavour.name: flavour for flavour in varlen.FLAVOURS}
needs_activation = pytest.mark.skipif(
    not hasattr(attention, "activate_flash_attention_impl"), reason="torch is older"
)


@pytest.mark.parametrize(
    ("major", "installed", "names"),
    [
        (10, {"flash_attn.cute", "flash_attn_interface"}, ["FA4", "FA2"]),
        (9, {"flash_attn.cute", "flash_attn_interface"}, ["FA3", "FA2"]),
        (9, {"flash_attn.cute"}, ["FA2"]),
        (8, {"flash_attn_interface"}, ["FA2"]),
        (12, set(), ["FA2"]),
    ],
)
def test_the_newest_kernel_that_reads_pages_there_comes_first(
    monkeypatch: pytest.MonkeyPatch, major: int, installed: set[str], names: list[str]
) -> None:
    monkeypatch.setattr(varlen, "is_installed", lambda module: module in installed)
    assert [flavour.name for flavour in varlen.flavours(major)] == names


def test_a_package_that_is_not_there_is_not_installed() -> None:
    assert varlen.is_installed("torch.nn")
    assert not varlen.is_installed("no_such_package.cute")
    assert not varlen.is_installed("json.no_such_module")


def test_an_older_torch_says_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(varlen, "reads_tables", lambda version: False)
    assert "reads no block tables; install torch 2.13" in str(varlen.look(CUDA))
    monkeypatch.setattr(varlen, "reads_tables", lambda version: True)
    monkeypatch.setattr(varlen, "is_installed", lambda module: False)
    (offer,) = varlen.look(CUDA)
    assert isinstance(offer, Offer)
    assert offer.what == "FlashAttention 2 built into torch, through torch"


@pytest.mark.slow
def test_a_torch_that_is_new_enough_has_the_function() -> None:
    if not varlen.reads_tables(torch.__version__):
        pytest.skip("torch is older")
    emulated = signature(Varlen("FA2").__call__).parameters
    assert list(emulated) == list(signature(varlen.find_kernel()).parameters)


def test_torch_reads_block_tables_from_2_13() -> None:
    for version, reads in (("2.11.0+cu130", False), ("2.13.0", True), ("3.0.0", True)):
        assert varlen.reads_tables(version) == reads
    assert varlen.reads_tables("2.14.0.dev20260901+cu130")


@needs_activation
@pytest.mark.parametrize("name", BY_NAME)
def test_torchs_function_is_called_as_each_kernel_asks(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    active: list[str] = []
    monkeypatch.setattr(attention, "current_flash_attention_impl", lambda: None)
    monkeypatch.setattr(attention, "activate_flash_attention_impl", active.append)
    offer = varlen.offer(BY_NAME[name], lambda: Varlen(name))
    assert find_fault(offer, HALF, torch.device("cpu"), offer.page_size) == ""
    assert active == ([] if name == "FA2" else [name])


@needs_activation
def test_a_kernel_that_somebody_activated_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restored: list[Any] = []
    monkeypatch.setattr(attention, "current_flash_attention_impl", lambda: "FA3")
    monkeypatch.setattr(
        attention, "restore_flash_attention_impl", lambda: restored.append(True)
    )
    varlen.activate(BY_NAME["FA3"])
    assert not restored
    varlen.activate(BY_NAME["FA2"])
    assert restored
