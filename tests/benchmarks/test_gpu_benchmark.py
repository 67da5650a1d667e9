"""The GPU's benchmark, on machines without one: what it measures means nothing here."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu")


def test_without_a_gpu_it_says_so_in_words_and_in_json(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    benchmark.main()
    words, line = capsys.readouterr().out.splitlines()
    assert "no GPU" in words
    assert json.loads(line) == {"benchmark": "gpu", "gpu": None, "rows": []}


@pytest.mark.slow
def test_the_tiny_shape_goes_through_every_measurement(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tiny"])
    benchmark.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    decodes = [row for row in found["rows"] if "batch" in row]
    assert [row["batch"] for row in decodes] == [1, 2]
    for row in decodes:
        assert row["step_ms"] > 0
        assert row["times_floor"] == pytest.approx(row["step_ms"] / row["floor_ms"])
        assert 0 < row["busy_share"] <= 1
    (prompt,) = (row for row in found["rows"] if "prompt" in row)
    assert prompt["matmul_share"] > 0
    (streams,) = (row for row in found["rows"] if "streams" in row)
    assert streams["tok_s"] > 0
    assert 0 <= streams["busy_share"] <= 1


def test_the_shapes_are_as_large_as_their_names_say(benchmark: Any) -> None:
    shapes = importlib.import_module("gpu_model")
    sizes = {name: shapes.matrix_numbers(shapes.SHAPES[name]) for name in shapes.SHAPES}
    assert sizes["8B"] == pytest.approx(7.5e9, rel=0.01)
    assert sizes["0.6B"] == pytest.approx(0.596e9, rel=0.01)
