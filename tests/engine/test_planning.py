"""What the planner promises, seen from outside."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from legato import Engine, FakeModel, SamplingParams
from legato.actors.scheduling.batching import Continuous, Dynamic, Static
from legato.gpu.fake import FAKE_LIMITS
from legato.protocol.errors import DeadlineExceeded, InvalidRequest

PROMPT = tuple(b"Once upon a time there was a planner that knew no time.")


def greedy(count: int) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)


def run(body: Any, *, limits: Any = FAKE_LIMITS, step_s: float = 0.0, **options: Any):
    async def main() -> None:
        model = FakeModel(limits=limits, step_s=step_s)
        async with Engine(model, **options) as engine:
            await body(engine)
            await engine.wait_idle()
            assert engine.stats().core.pages_used == 0

    asyncio.run(main())


def test_the_next_turn_of_a_conversation_computes_only_what_is_new():
    async def body(engine: Engine) -> None:
        first = await engine.generate(PROMPT, greedy(30))
        assert first.usage.cached_tokens == 0
        said = (*PROMPT, *first.token_ids)
        turn = (*said, *b"And then?")
        second = await engine.generate(turn, greedy(30))
        # All but the answer's last token, which nobody has computed.
        assert second.usage.cached_tokens == len(said) - 1
        third = await engine.generate(turn, greedy(30))
        assert third.token_ids == second.token_ids

    run(body)


def test_a_deadline_that_cannot_be_met_is_refused_with_the_numbers():
    async def body(engine: Engine) -> None:
        await engine.generate(PROMPT, greedy(4))
        await engine.wait_idle()
        steps = engine.stats().core.steps
        with pytest.raises(DeadlineExceeded, match="1500 tokens takes 92 steps"):
            await engine.generate((7,) * 1500, greedy(4), ttft_deadline_s=0.05)
        with pytest.raises(DeadlineExceeded, match="total_deadline_s"):
            await engine.generate((7,) * 1500, greedy(4), total_deadline_s=0.05)
        await engine.wait_idle()
        assert engine.stats().core.steps == steps, "work was spent on it"

    run(body, step_s=0.005, max_step_tokens=16)


def test_what_can_never_fit_the_pool_is_refused_with_the_numbers():
    async def body(engine: Engine) -> None:
        with pytest.raises(InvalidRequest, match="8 pages of 16"):
            await engine.generate((7,) * 100, greedy(60))
        whole = await engine.generate((7,) * 100, greedy(29))
        assert len(whole.token_ids) == 29

    run(body, limits=structs.replace(FAKE_LIMITS, num_pages=8))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prefix_cache": False},
        {"max_step_tokens": 7},
        {"batching": Static(size=3, max_wait_s=0.01)},
        {"batching": Dynamic(max_batch=2, max_delay_s=0.001)},
    ],
)
def test_answers_are_the_same_however_they_are_run(options: dict[str, Any]):
    async def body(engine: Engine) -> None:
        prompts = [PROMPT[: 20 + n] for n in range(12)]
        alone = [(await engine.generate(p, greedy(40))).token_ids for p in prompts]
        for batching in (Dynamic(max_batch=5), Continuous()):
            engine.set_batching(batching)
            together = await asyncio.gather(
                *(engine.generate(prompt, greedy(40)) for prompt in prompts)
            )
            assert [answer.token_ids for answer in together] == alone

    # Four places, and pages for little more than two sequences: some are preempted.
    run(
        body,
        limits=structs.replace(FAKE_LIMITS, num_pages=10, num_slots=4),
        **options,
    )
