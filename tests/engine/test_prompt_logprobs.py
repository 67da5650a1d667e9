"""Log-probabilities of prompts, through the whole engine: each once, and right."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from legato import Engine, FakeModel, SamplingParams
from legato.actors.scheduling.planner import Planner
from legato.gpu.fake import FAKE_LIMITS, FakeRunner, advance, fake_answer, fake_score
from legato.protocol.requests import StepOutput
from legato.protocol.steps import StepResult

Play = Callable[..., None]
PARAMS = SamplingParams(temperature=0, max_tokens=9, ignore_eos=True, prompt_logprobs=2)


def prompt_of(number: int, size: int = 100) -> tuple[int, ...]:
    return tuple((number * 31 + at * at) % 250 for at in range(size))


def check(prompt: tuple[int, ...], answer: Any) -> None:
    """Hold an answer, and what was told of its prompt, against the arithmetic."""
    assert answer.token_ids == fake_answer(prompt, 9, end=None)
    assert answer.prompt.token_ids == prompt
    first, *rest = answer.prompt.logprobs
    assert first is None
    state, want = 0, []
    for token, target in itertools.pairwise(prompt):
        state = advance(state, token)
        want.append(fake_score(state, target, 2))
    assert rest == want


async def ask(engine: Engine, numbers: range) -> None:
    prompts = [prompt_of(number) for number in numbers]
    answers = await asyncio.gather(*(engine.generate(p, PARAMS) for p in prompts))
    for prompt, answer in zip(prompts, answers, strict=True):
        check(prompt, answer)


def test_they_are_told_where_asked_for_whatever_is_cached(play_placed: Play):
    async def body(engine: Engine) -> None:
        prompt = prompt_of(0)
        plain = structs.replace(PARAMS, prompt_logprobs=None)
        assert (await engine.generate(prompt, plain)).prompt is None
        for _ in range(2):
            answer = await engine.generate(prompt, PARAMS)
            check(prompt, answer)
            assert answer.usage.cached_tokens == 0
        # And what it computed serves those who do not ask.
        assert (await engine.generate(prompt, plain)).usage.cached_tokens > 0
        alone = await engine.generate(prompt[:1], PARAMS)
        assert alone.prompt is not None
        assert alone.prompt.logprobs == (None,)

    play_placed(body)


def test_they_are_told_once_in_small_steps_side_by_side(play: Play):
    async def body(engine: Engine) -> None:
        await ask(engine, range(6))
        # Equal prompts do not wait for each other either.
        same = await asyncio.gather(
            *(engine.generate(prompt_of(9), PARAMS) for _ in range(4))
        )
        for answer in same:
            check(prompt_of(9), answer)

    play(body, max_step_tokens=24)


def test_preemption_repeats_and_loses_none(play: Play):
    async def body(engine: Engine) -> None:
        long = structs.replace(PARAMS, max_tokens=90)
        prompts = [prompt_of(number, 60) for number in range(6)]
        answers = await asyncio.gather(*(engine.generate(p, long) for p in prompts))
        for prompt, answer in zip(prompts, answers, strict=True):
            assert answer.token_ids == fake_answer(prompt, 90, end=None)
            check(prompt, structs.replace(answer, token_ids=answer.token_ids[:9]))
        await engine.wait_idle()
        assert engine.stats().core.preemptions > 0

    limits = structs.replace(FAKE_LIMITS, num_pages=24)
    play(body, FakeModel(limits=limits), max_step_tokens=24)


@pytest.mark.parametrize("fail_at", [1, 3, 6])
def test_a_device_that_dies_repeats_and_loses_none(play: Play, fail_at: int):
    steps = itertools.chain([fail_at], itertools.repeat(None))

    async def body(engine: Engine) -> None:
        await ask(engine, range(3))
        await engine.wait_idle()
        assert engine.stats().core.restarts == 1

    model = FakeModel(runner=lambda: FakeRunner(fail_at=next(steps)))
    play(body, model, max_step_tokens=40)


def test_a_scheduler_that_breaks_repeats_and_loses_none(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    commit, calls = Planner.commit, itertools.count()

    def breaks_once(planner: Planner, result: StepResult, now_s: float) -> StepOutput:
        if next(calls) == 4:
            raise ZeroDivisionError("a fault nobody thought of")
        return commit(planner, result, now_s)

    monkeypatch.setattr(Planner, "commit", breaks_once)

    async def body(engine: Engine) -> None:
        await ask(engine, range(3))
        await engine.wait_idle()
        assert engine.stats().core_restarts == 1

    play(body, max_step_tokens=40)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_models_own_answer_is_as_likely_when_it_is_a_prompt(
    smollm2: Path, dtype: str
):
    async def main() -> None:
        async with Engine(str(smollm2), dtype=dtype, max_context=512) as engine:
            prompt = engine.encode("Rivers of Europe: the Danube, the Rhine, the")
            params = SamplingParams(temperature=0, max_tokens=12, logprobs=3)
            answer = await engine.generate(prompt, params)
            whole = (*prompt, *answer.token_ids)
            asked = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=3)
            told = (await engine.generate(whole, asked)).prompt
            assert told is not None
            assert told.token_ids == whole
            again = told.logprobs[len(prompt) :]
            for one, same in zip(answer.logprobs, again, strict=True):
                assert same is not None
                assert same.chosen == pytest.approx(one.chosen, abs=2e-2)
                assert same.ids[0] == one.ids[0]

    asyncio.run(main())
