"""Crashes of the device under the whole engine: a pause, not an answer."""

import asyncio
import itertools
from collections.abc import Callable, Iterator

import pytest

from legato import Engine, EngineFailed, FakeModel, SamplingParams
from legato.actors.scheduling.planner import Planner
from legato.gpu.fake import FakeRunner
from legato.gpu.fake import fake_answer as expected
from legato.gpu.runner import ModelRunner
from legato.protocol.requests import StepOutput
from legato.protocol.steps import StepResult

Play = Callable[..., None]


def failing(fail_at: Iterator[int | None]) -> Callable[[], ModelRunner]:
    """Runners that fail at these steps, one after the other."""
    return lambda: FakeRunner(fail_at=next(fail_at))


@pytest.mark.parametrize("fail_at", [0, 1, 2, 7])
def test_a_device_that_dies_once_changes_no_token(play: Play, fail_at: int):
    async def body(engine: Engine) -> None:
        prompts = [tuple(f"prompt number {n}".encode()) for n in range(8)]
        params = SamplingParams(temperature=0, max_tokens=25)
        answers = await asyncio.gather(
            *(engine.generate(prompt, params) for prompt in prompts)
        )
        for prompt, answer in zip(prompts, answers, strict=True):
            assert answer.token_ids == expected(prompt, 25)
            assert answer.usage.output_tokens == len(answer.token_ids)
        await engine.wait_idle()
        assert engine.stats().core.restarts == 1
        assert engine.state == "ready"

    steps = itertools.chain([fail_at], itertools.repeat(None))
    play(body, FakeModel(runner=failing(steps)))


def test_past_the_limit_every_stream_ends_with_the_cause(play: Play):
    async def body(engine: Engine) -> None:
        params = SamplingParams(temperature=0, max_tokens=500)
        answers = await asyncio.gather(
            *(engine.generate(f"p{n}", params) for n in range(4)),
            return_exceptions=True,
        )
        for answer in answers:
            assert isinstance(answer, EngineFailed)
            assert "told to fail at step 1" in str(answer)
        assert engine.state == "failed"
        assert "told to fail" in engine.failure
        await engine.wait_idle()  # a core that is gone is at rest
        with pytest.raises(EngineFailed, match="told to fail"):
            await engine.generate("afterwards", params)

    model = FakeModel(runner=failing(itertools.repeat(1)))
    play(body, model, restart_intensity=2)


def test_a_device_that_cannot_be_built_fails_the_start_with_its_cause(aftermath):
    def build() -> ModelRunner:
        raise RuntimeError("no such device")

    async def main() -> None:
        with pytest.raises(EngineFailed, match="no such device"):
            async with Engine(FakeModel(runner=build), restart_intensity=1):
                pass

    aftermath.run(main)


def test_a_scheduler_that_breaks_costs_a_pause_too(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    commit, calls = Planner.commit, itertools.count()

    def breaks_once(planner: Planner, result: StepResult, now_s: float) -> StepOutput:
        if next(calls) == 20:
            raise ZeroDivisionError("a fault nobody thought of")
        return commit(planner, result, now_s)

    monkeypatch.setattr(Planner, "commit", breaks_once)

    async def body(engine: Engine) -> None:
        prompts = [tuple(f"prompt {n}".encode()) for n in range(4)]
        params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
        answers = await asyncio.gather(*(engine.generate(p, params) for p in prompts))
        for prompt, answer in zip(prompts, answers, strict=True):
            assert answer.token_ids == expected(prompt, 40, end=None)
        assert engine.stats().core_restarts == 1
        assert engine.state == "ready"

    play(body)
