from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from legato.gpu import assembly, precision
from legato.gpu.checkpoint import ModelConfig, RopeConfig, open_checkpoint
from legato.gpu.model.native_decoder import NativeDecoder
from legato.gpu.native import Kernels, KernelsUnavailable, load_kernels
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting
from legato.protocol.steps import RowSampling

WANTS = RowSampling(0.0, logprobs=3)
CHANGES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"architecture": "qwen2", "qkv_bias": True},
    "qwen3": {"architecture": "qwen3", "qk_norm": True},
    "one head of keys": {"num_kv_heads": 1},
    "untied": {"tied_embeddings": False},
    "linear rope": {"rope": RopeConfig(theta=10_000.0, kind="linear", factor=4.0)},
    "odd sizes": {"hidden": 56, "head_dim": 24, "num_heads": 3, "num_kv_heads": 3},
    "heads of 64": {"head_dim": 64},
    "heads of 128": {"head_dim": 128},
}


@pytest.fixture
def build(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Callable[..., Path],
) -> Callable[..., ModelRunner]:
    def of(change: dict[str, Any], **options: Any) -> ModelRunner:
        config = replace(tiny_config, **change)
        folder = write_directory(tmp_path / "m", config, random_parameters(config))
        checkpoint = open_checkpoint(str(folder))
        settings = RunnerSettings(device="cpu", num_slots=4, **options)
        return assembly.build_runner(checkpoint, settings)

    return of


@pytest.fixture
def kernels() -> Kernels:
    found = load_kernels()
    if not isinstance(found, Kernels):
        pytest.skip(str(found))
    return found


def lines(theatre: SimpleNamespace) -> list[Any]:
    forced = tuple(range(40, 52))
    prompts = [tuple(range(2, 39)), tuple(range(60, 80)), (5,)]
    return [
        theatre.Line(prompt, WANTS, 12, slot, forced=forced)
        for slot, prompt in enumerate(prompts)
    ]


def play(theatre: SimpleNamespace, runner: ModelRunner) -> list[Any]:
    played = lines(theatre)
    theatre.Stage(runner, chunk=17).play(played)
    return [one for line in played for one in line.sampled]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("change", list(CHANGES.values()), ids=list(CHANGES))
def test_every_family_computes_what_the_eager_layers_do(
    build: Callable[..., ModelRunner],
    theatre: SimpleNamespace,
    change: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembly, "NATIVE_CACHE", torch.float32)
    native = build(change, dtype="int8", num_threads=1)
    decoder, _ = native._parts
    assert isinstance(decoder, NativeDecoder)
    # The same packed weights through torch's operators.
    eager = build(change, dtype="int8", attention="reference")
    pairs = zip(play(theatre, native), play(theatre, eager), strict=True)
    for got, want in pairs:
        assert got.logprobs.values == pytest.approx(want.logprobs.values, abs=5e-3)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("change", ["llama", "odd sizes", "heads of 64"])
def test_keys_and_values_in_halves_are_near_those_in_floats(
    build: Callable[..., ModelRunner],
    theatre: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    halves = play(theatre, build(CHANGES[change], dtype="int8"))
    monkeypatch.setattr(assembly, "NATIVE_CACHE", torch.float32)
    floats = play(theatre, build(CHANGES[change], dtype="int8"))
    assert 0 < mean_difference(halves, floats) < 3e-3


def mean_difference(got: list[Any], want: list[Any]) -> float:
    """Of log-probabilities of the likeliest."""
    pairs = zip(got, want, strict=True)
    differences = [
        abs(ours - theirs)
        for one, other in pairs
        for ours, theirs in zip(one.logprobs.values, other.logprobs.values, strict=True)
    ]
    return sum(differences) / len(differences)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("change", ["llama", "heads of 64", "heads of 128"])
def test_answers_do_not_depend_on_threads_company_or_chunks(
    build: Callable[..., ModelRunner],
    theatre: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    def using(threads: int) -> ModelRunner:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        return build(CHANGES[change], dtype="int8")

    want = play(theatre, using(1))
    assert play(theatre, using(3)) == want
    alone = lines(theatre)
    for line in alone:
        theatre.Stage(using(1), chunk=5).play([line])
    assert [one for line in alone for one in line.sampled] == want


@pytest.mark.usefixtures("kernels")
def test_int8_says_what_it_runs_on(build: Callable[..., ModelRunner]) -> None:
    assert build({}, dtype="int8").memory_report.endswith("; native kernels")


def test_without_kernels_int8_is_float32_and_says_so(
    build: Callable[..., ModelRunner],
    theatre: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        precision, "load_kernels", lambda: KernelsUnavailable("no compiler")
    )
    runner = build({}, dtype="int8")
    assert runner.memory_report.endswith("; without native kernels: no compiler")
    want = play(theatre, build({}, dtype="float32"))
    assert play(theatre, runner) == want


def test_int8_is_for_a_cpu() -> None:
    settings = RunnerSettings(dtype="int8")
    with pytest.raises(InvalidSetting, match="does not run on cuda"):
        precision.find_kernels(settings, torch.device("cuda"))
