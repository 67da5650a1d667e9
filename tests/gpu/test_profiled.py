"""Which steps a profiler sees, and that nobody else notices it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from legato.gpu.profiled import ProfiledRunner
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting
from legato.protocol.steps import RowSampling, StepPlan


class FakeProfiler:
    """Writes down what it sees."""

    def __init__(self, told: list[str], fault: str = "") -> None:
        self.told = told
        self.fault = fault
        told.append("start")

    def span(self, name: str) -> AbstractContextManager[None]:
        self.told.append(name)
        return nullcontext()

    def finish(self, path: Path) -> None:
        if self.fault:
            raise OSError(self.fault)
        self.told.append(path.name)


class FakeRunner:
    """Hands out steps that say when they are waited for."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def launch(self, plan: StepPlan) -> SimpleNamespace:
        self.told.append(f"launch {plan.step}")
        return SimpleNamespace(wait=lambda: self.told.append(f"wait {plan.step}"))

    def close(self) -> None:
        self.told.append("close")


@pytest.fixture
def checkpoint(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Checkpoint:
    path = write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())
    return open_checkpoint(str(path))


def watched(told: list[str], *, fault: str = "") -> ProfiledRunner:
    runner = cast(ModelRunner, FakeRunner(told))
    start = cast(Any, lambda: FakeProfiler(told, fault))
    return ProfiledRunner(runner, Path("out.json"), 2, 2, start)


def test_some_steps_are_watched_and_no_other_is_under_way_at_their_ends() -> None:
    told = list[str]()
    runner = watched(told)
    for step in range(6):
        runner.launch(StepPlan(step, (), decodes=(0, 1)))
    runner.close()
    assert told == [
        *("launch 0", "launch 1", "wait 1", "start"),
        *("legato.step 2: 2 decodes, 2 tokens", "launch 2"),
        *("legato.step 3: 2 decodes, 2 tokens", "launch 3"),
        *("wait 3", "out.json", "launch 4", "launch 5", "close"),
    ]


def test_a_runner_that_is_closed_early_writes_what_was_seen() -> None:
    told = list[str]()
    runner = watched(told)
    for step in range(3):
        runner.launch(StepPlan(step, ()))
    runner.close()
    assert told[-3:] == ["wait 2", "out.json", "close"]


def test_a_trace_that_cannot_be_written_costs_no_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = list[str]()
    runner = watched(told, fault="disk full")
    for step in range(5):
        runner.launch(StepPlan(step, ()))
    assert told[-1] == "launch 4"
    assert "not written to out.json" in caplog.text


def test_a_folder_that_is_not_there_is_refused(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    settings = RunnerSettings(device="cpu", profile=str(tmp_path / "no" / "out.json"))
    with pytest.raises(InvalidSetting, match=r"out\.json, but there is no"):
        build_runner(checkpoint, settings)


@pytest.mark.slow
def test_a_trace_has_the_steps_operators(
    checkpoint: Checkpoint, tmp_path: Path, theatre: SimpleNamespace
) -> None:
    path = tmp_path / "out.json"
    told = {"profile": str(path), "profile_from": 1, "profile_steps": 2}
    runner = build_runner(
        checkpoint, RunnerSettings(device="cpu", dtype="float32", **told)
    )
    line = theatre.Line((5, 6, 7), RowSampling(0.0), 6, 0)
    theatre.Stage(runner).play([line])
    runner.close()
    names = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    assert {f"legato.step {n}: 1 decodes, 1 tokens" for n in (1, 2)} <= names
    assert "legato.step 3: 1 decodes, 1 tokens" not in names
    assert "aten::linear" in names
