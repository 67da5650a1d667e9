"""Keys and values of 8 bits: who reads them, what they take, how far answers move."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from legato.gpu.assembly import build_runner
from legato.gpu.attention import available, choose_attention, flash, varlen
from legato.gpu.attention.cache import FP8
from legato.gpu.attention.geometry import Geometry
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda.late_device import LateDevice
from legato.gpu.native import Kernels, load_kernels
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting
from legato.protocol.steps import RowSampling

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
HALF = Geometry(4, 2, 64, torch.bfloat16, (), FP8)
PROMPTS = [tuple(range(2, 39)), (7, 8), tuple(range(3, 90))]


@pytest.fixture(scope="module")
def tiny_file(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    return write_gguf(folder / "tiny.gguf", tiny_config, random_parameters())


def build(path: Path, **options: Any) -> ModelRunner:
    usual = {"dtype": "float32", "kv_dtype": "fp8", "num_slots": 4, "page_size": 8}
    checkpoint = open_checkpoint(str(path))
    return build_runner(checkpoint, RunnerSettings(device="cpu", **usual | options))


def say(
    runner: ModelRunner, theatre: SimpleNamespace, prompts: Any, chunk: int = 512
) -> list[list[int]]:
    greedy = RowSampling(0.0)
    lines = [theatre.Line(one, greedy, 9, slot) for slot, one in enumerate(prompts)]
    said = theatre.Stage(runner, chunk=chunk).play(lines)
    runner.close()
    return said


def test_a_page_takes_a_byte_for_each_number(tiny_file: Path) -> None:
    whole, small = (
        build(tiny_file, kv_dtype=kind, kv_bytes=1 << 20) for kind in ("auto", "fp8")
    )
    assert small.limits.page_bytes == 2 * 2 * 8 * 2 * 16
    assert whole.limits.page_bytes == 4 * small.limits.page_bytes


@pytest.mark.parametrize("attention", ["paged", "reference"])
def test_answers_do_not_depend_on_how_prompts_are_cut(
    tiny_file: Path, theatre: SimpleNamespace, attention: str
) -> None:
    want = say(build(tiny_file, attention=attention), theatre, PROMPTS)
    cut = say(build(tiny_file, attention=attention), theatre, PROMPTS, chunk=5)
    alone = [
        say(build(tiny_file, attention=attention), theatre, [one])[0] for one in PROMPTS
    ]
    assert cut == want
    assert alone == want


def test_a_device_that_works_late_says_the_same(
    tiny_file: Path, theatre: SimpleNamespace, build_on: Callable[..., ModelRunner]
) -> None:
    want = say(build(tiny_file, attention="reference"), theatre, PROMPTS)
    options = {"kv_dtype": "fp8", "num_slots": 4, "page_size": 8}
    late = build_on(LateDevice(), tiny_file, **options)
    assert late.limits.page_bytes == 2 * 2 * 8 * 2 * 16
    assert say(late, theatre, PROMPTS) == want


def test_another_type_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"kv_dtype 'int4' .* one of auto, fp8"):
        RunnerSettings(kv_dtype="int4")


@pytest.mark.slow
def test_the_compiled_kernels_refuse_it(tiny_file: Path) -> None:
    if not isinstance(load_kernels(), Kernels):
        pytest.skip("no compiler")
    with pytest.raises(InvalidSetting, match="dtype float32 or attention paged"):
        build(tiny_file, dtype="int8")
    runner = build(tiny_file, dtype="int8", attention="paged")
    assert runner.limits.page_bytes == 2 * 2 * 8 * 2 * 16
    runner.close()


def test_who_cannot_read_it_is_refused_and_says_why() -> None:
    wide = Geometry(4, 2, 64, torch.float32, (), FP8)
    with pytest.raises(InvalidSetting, match="compiled kernels: not for keys and valu"):
        choose_attention("native", wide, CPU)
    assert choose_attention("auto", wide, CPU).name == "paged"


def test_on_hopper_flash_3_and_gathered_pages_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(flash, "find_spec", lambda name: True)
    monkeypatch.setattr(varlen, "reads_tables", lambda version: True)
    found = available(CUDA, HALF)
    assert [one.name for one in found if one.runs] == [
        *("flash", "flash", "gather", "reference")
    ]
    refused = [one.reason for one in found if not one.runs]
    assert any("FlashAttention 2 of the flash-attn" in reason for reason in refused)
    assert all("not for keys and values in fp8" in reason for reason in refused)


@pytest.mark.slow
@pytest.mark.model
def test_smollm2_is_nearly_as_sure_of_a_text(
    smollm2: Path, theatre: SimpleNamespace
) -> None:
    """Random tokens are given to it: each step by itself is compared."""
    prompt = tuple(range(300, 460))
    forced = tuple(range(500, 540))
    told: dict[str, list[Any]] = {}
    for kind in ("auto", "fp8"):
        runner = build(smollm2, kv_dtype=kind, max_context=512, page_size=16)
        wants = RowSampling(0.0, logprobs=5)
        line = theatre.Line(prompt, wants, len(forced), 0, forced)
        theatre.Stage(runner).play([line])
        runner.close()
        told[kind] = [one.logprobs for one in line.sampled]
    off = [
        abs(dict(zip(b.ids, b.values, strict=True)).get(a.ids[0], -9.0) - a.values[0])
        for a, b in zip(told["auto"], told["fp8"], strict=True)
    ]
    assert 0 < sum(off) / len(off) < 0.1
    assert max(off) < 0.5
