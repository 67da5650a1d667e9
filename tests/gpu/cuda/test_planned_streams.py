"""A planner over queued steps: what it says is what it says over ordinary ones."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from legato.actors.scheduling import Planner, PlannerSettings
from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.grammar import Grammars, Spelling
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.grammar import Grammar
from legato.protocol.requests import Admit, StepOutput
from legato.protocol.steps import RowSampling

PAGE_BYTES = 2 * 2 * 4 * 2 * 16 * 4
OPTIONS: dict[str, Any] = {
    "page_size": 4,
    "num_slots": 4,
    "max_context": 64,
    "max_step_tokens": 16,
    "kv_bytes": 17 * PAGE_BYTES,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def spell() -> Spelling:
    tokens = [letter.encode() for letter in LETTERS]
    return Spelling(tokens + [b""] * 70, {90: "<end>"}, (90,), lambda text: ())


@pytest.fixture
def tiny_file(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Callable[..., Path],
) -> Path:
    return write_directory(tmp_path / "tiny", tiny_config, random_parameters())


def requests() -> list[Admit]:
    """Greedy, drawn, counted and bound ones, together more than the pages hold."""
    wishes = [
        RowSampling(0.0, logprobs=1),
        RowSampling(0.8, seed=3, top_p=0.9, frequency_penalty=0.5),
        RowSampling(0.8, seed=4, grammar=Grammar.regex("[a-z]{200}")),
        RowSampling(1.2, seed=5, min_p=0.02),
    ]
    return [
        Admit(n, tuple((n * 7 + i) % 80 for i in range(9 + n)), 22 + n, wishes[n % 4])
        for n in range(5)
    ]


def play(runner: ModelRunner) -> tuple[dict[int, list[int]], int]:
    """Run all requests through a planner, two steps in flight."""
    runner.equip(Grammars(spell))
    planner, now_s = Planner(runner.limits, PlannerSettings()), 0.0
    tokens: dict[int, list[int]] = {}
    handles: deque[Any] = deque()

    def note(output: StepOutput | None) -> None:
        for emitted in output.emitted if output else ():
            tokens.setdefault(emitted.request, []).append(emitted.token)

    for admit in requests():
        planner.admit(admit, now_s)
    while planner.num_live or handles:
        now_s += 0.01
        while planner.num_in_flight < 2 and (plan := planner.plan(now_s)) is not None:
            handles.append(runner.launch(plan))
        if handles:
            note(planner.commit(handles.popleft().wait(), now_s))
        note(planner.take_output(now_s))
    preemptions = planner.stats(now_s).preemptions
    runner.close()
    return tokens, preemptions


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["host", "late", pytest.param("cuda", marks=pytest.mark.gpu)]
)
def test_what_was_preempted_and_resumed_is_what_ordinary_steps_say(
    tiny_file: Path,
    stream_devices: dict[str, Callable[[], Any]],
    build_on: Callable[..., ModelRunner],
    name: str,
) -> None:
    checkpoint = open_checkpoint(str(tiny_file))
    settings = {"device": "cpu", "dtype": "float32", "attention": "reference"}
    ordinary = build_runner(checkpoint, RunnerSettings(**settings | OPTIONS))
    wanted, _ = play(ordinary)
    told, preemptions = play(build_on(stream_devices[name](), tiny_file, **OPTIONS))
    assert preemptions
    assert told == wanted
    assert [len(told[n]) for n in range(5)] == [22 + n for n in range(5)]
