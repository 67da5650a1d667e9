from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legato.gpu import precision
from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from legato.gpu.model import self_check
from legato.gpu.model.packed import load_packed_weights
from legato.gpu.native import Kernels, load_kernels
from legato.gpu.settings import RunnerSettings
from legato.protocol.steps import RowSampling


@pytest.fixture
def kernels() -> Kernels:
    found = load_kernels()
    if not isinstance(found, Kernels):
        pytest.skip(str(found))
    return found


@pytest.fixture
def checkpoint(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Checkpoint:
    path = write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())
    return open_checkpoint(str(path))


def test_kernels_that_work_are_found_faultless(
    checkpoint: Checkpoint, kernels: Kernels
) -> None:
    weights = load_packed_weights(checkpoint, kernels, num_threads=1)
    assert self_check.find_fault(checkpoint, weights, kernels, 1) == ""


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (lambda weights: weights.layers[0].qkv, "qkv of layer 0"),
        (lambda weights: weights.layers[-1].down, "down of layer 1"),
        (lambda weights: weights.head, "of the head"),
    ],
)
@pytest.mark.parametrize("wrong", [0, 255])  # 255: every scale is NaN
def test_a_product_that_is_off_is_named(
    checkpoint: Checkpoint, kernels: Kernels, place: Any, named: str, wrong: int
) -> None:
    weights = load_packed_weights(checkpoint, kernels, num_threads=1)
    place(weights).blocks.fill_(wrong)
    assert named in self_check.find_fault(checkpoint, weights, kernels, 1)


def test_attention_that_is_off_is_named(
    checkpoint: Checkpoint, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = load_packed_weights(checkpoint, kernels, num_threads=1)
    monkeypatch.setattr(kernels, "attend", lambda *_: None)
    assert "attention is off" in self_check.find_fault(checkpoint, weights, kernels, 1)


@pytest.mark.usefixtures("kernels")
def test_kernels_that_fail_their_check_are_left_for_float32(
    checkpoint: Checkpoint,
    theatre: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def play(dtype: str) -> Any:
        settings = RunnerSettings(device="cpu", dtype=dtype, num_slots=4)
        runner = build_runner(checkpoint, settings)
        line = theatre.Line((3, 4, 5), RowSampling(0.0), 4, 0)
        return theatre.Stage(runner).play([line]), runner.memory_report

    want, _ = play("float32")
    monkeypatch.setattr(precision, "find_fault", lambda *_: "qkv is off by 1")
    monkeypatch.setattr(precision, "has_native_bf16", lambda: False)
    for dtype in ("auto", "int8"):
        got, report = play(dtype)
        assert got == want
        assert report.endswith("their self-check failed: qkv is off by 1")
    assert "torch computes instead" in caplog.text
