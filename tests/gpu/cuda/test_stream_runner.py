"""Queued steps against steps that run as they are launched."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from legato.actors.executor import Executor
from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda.late_device import LateDevice
from legato.gpu.grammar import Grammars, Spelling
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.grammar import Grammar
from legato.protocol.steps import (
    DeviceReady,
    RowSampling,
    SlotOpen,
    StepPlan,
    StepResult,
    StepRow,
)

PROMPT = tuple(range(2, 21))
OPTIONS: dict[str, Any] = {
    "page_size": 4,
    "num_slots": 3,
    "max_context": 64,
    "max_step_tokens": 16,
    "kv_bytes": 48 * 2 * 4 * 2 * 4 * 2 * 16,
}
WANTS = [
    RowSampling(0.0, logprobs=2),
    RowSampling(1.0, seed=5, top_p=0.9, presence_penalty=1.0),
    RowSampling(1.0, seed=6, grammar=Grammar.regex("[a-c]{4}[x-z]{40}")),
]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def spell() -> Spelling:
    tokens = [letter.encode() for letter in LETTERS]
    return Spelling(tokens + [b""] * 70, {90: "<end>"}, (90,), lambda text: ())


@pytest.fixture(scope="module")
def tiny_file(
    tmp_path_factory: pytest.TempPathFactory,
    write_directory: Callable[..., Path],
    random_parameters: Callable[..., Any],
    tiny_config: ModelConfig,
) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    return write_directory(folder, tiny_config, random_parameters())


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(spell)


@pytest.fixture(scope="module")
def late(
    tiny_file: Path, build_on: Callable[..., ModelRunner], grammars: Grammars
) -> Iterator[tuple[LateDevice, ModelRunner]]:
    device = LateDevice()
    runner = build_on(device, tiny_file, **OPTIONS)
    runner.equip(grammars)
    yield device, runner
    runner.close()


@pytest.fixture(scope="module")
def wanted(tiny_file: Path, grammars: Grammars, theatre: SimpleNamespace) -> list[Any]:
    """What a runner that queues nothing says."""
    checkpoint = open_checkpoint(str(tiny_file))
    settings = {"device": "cpu", "dtype": "float32", "attention": "reference"}
    runner = build_runner(checkpoint, RunnerSettings(**settings | OPTIONS))
    runner.equip(grammars)
    lines = lines_of(theatre)
    theatre.Stage(runner, chunk=7).play(lines)
    return [line.sampled for line in lines]


def lines_of(theatre: SimpleNamespace) -> list[Any]:
    return [
        theatre.Line(PROMPT[slot:], want, 14, slot) for slot, want in enumerate(WANTS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_in_whatever_order_streams_run_the_answers_are_the_same(
    late: tuple[LateDevice, ModelRunner],
    wanted: list[Any],
    theatre: SimpleNamespace,
    seed: int,
) -> None:
    device, runner = late
    device.shuffle(seed)
    lines = lines_of(theatre)
    theatre.Stage(runner, chunk=7, seed=seed).play(lines)
    for line, want in zip(lines, wanted, strict=True):
        assert line.tokens == [one.token for one in want]
        assert not any(one.fault for one in line.sampled)
    for got, want in zip(lines[0].sampled, wanted[0], strict=True):
        assert got.logprobs.ids == want.logprobs.ids
        assert got.logprobs.chosen == pytest.approx(want.logprobs.chosen, abs=1e-4)


@pytest.mark.slow
def test_a_launch_does_not_wait_for_the_device(
    late: tuple[LateDevice, ModelRunner],
) -> None:
    _, runner = late
    opened = SlotOpen(0, RowSampling(0.0), len(PROMPT), tuple(range(6)))
    row = StepRow(0, 0, PROMPT[:16], False)
    last = StepRow(0, 16, PROMPT[16:], True)
    first = runner.launch(StepPlan(0, (row,), (opened,)))
    second = runner.launch(StepPlan(1, (last,)))
    assert not first._marks.ended.at_s
    # Whoever waits for the second has the first as well, in its place in time.
    told = second.wait()
    assert first.is_read
    assert first.wait().finished_s <= told.started_s <= told.finished_s


@pytest.mark.slow
def test_steps_follow_each_other_in_time(
    late: tuple[LateDevice, ModelRunner],
) -> None:
    _, runner = late
    opened = SlotOpen(1, RowSampling(0.0), 3, (8, 9, 10, 11))
    plans = [StepPlan(0, (StepRow(1, 0, (4, 5, 6), True),), (opened,))]
    plans += [StepPlan(step, (), decodes=(1,)) for step in range(1, 5)]
    results = [runner.launch(plan).wait() for plan in plans]
    ends = [0.0]
    for result in results:
        assert ends[-1] <= result.started_s <= result.finished_s
        ends.append(result.finished_s)


class Sink:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def put_blocking(self, item: Any) -> None:
        self.events.append(item)


@pytest.mark.slow
def test_the_executor_keeps_two_steps_in_flight(
    tiny_file: Path, build_on: Callable[..., ModelRunner], wanted: list[Any]
) -> None:
    sink = Sink()
    executor = Executor(lambda: build_on(LateDevice(), tiny_file, **OPTIONS), sink, 16)
    opened = SlotOpen(0, WANTS[0], len(PROMPT), tuple(range(10)))
    executor.post(StepPlan(0, (StepRow(0, 0, PROMPT[:16], False),), (opened,)))
    executor.post(StepPlan(1, (StepRow(0, 16, PROMPT[16:], True),)))
    for step in range(2, 12):
        executor.post(StepPlan(step, (), decodes=(0,)))
    executor.start()
    executor.close()
    executor.join()
    ready, *results = sink.events
    assert isinstance(ready, DeviceReady)
    assert [one.step for one in results if isinstance(one, StepResult)] == [*range(12)]
    tokens = [token for one in results for token in one.tokens]
    assert tokens == [one.token for one in wanted[0]][:11]


def test_a_closed_runner_refuses_plans(
    tiny_file: Path,
    build_on: Callable[..., ModelRunner],
    stream_devices: dict[str, Callable[[], Any]],
) -> None:
    runner = build_on(stream_devices["host"](), tiny_file, **OPTIONS | {"num_slots": 1})
    runner.close()
    with pytest.raises(ValueError, match="closed"):
        runner.launch(StepPlan(0, ()))


def test_the_spare_page_is_no_sequences(
    tiny_file: Path,
    build_on: Callable[..., ModelRunner],
    stream_devices: dict[str, Callable[[], Any]],
) -> None:
    runner = build_on(stream_devices["host"](), tiny_file, **OPTIONS | {"num_slots": 1})
    machine = runner._machine
    assert machine.cache.num_pages == runner.limits.num_pages + 1 == 49
    with pytest.raises(ValueError, match="outside the pool"):
        runner.launch(StepPlan(0, (), (SlotOpen(0, RowSampling(0.0), 1, (48,)),)))
    runner.close()
    assert torch.isfinite(machine.cache.keys).all()
