"""What a reader controls of an answer under way: credit, limits, rank."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from legato import Delta, Engine, FakeModel, FinishReason, InvalidRequest
from legato import SamplingParams as Params
from legato.engine import Stream
from legato.gpu.fake import fake_answer

Play = Callable[..., None]
FAST = FakeModel(step_s=0.001)


def truth(prompt: str, count: int) -> tuple[int, ...]:
    return fake_answer(tuple(prompt.encode()), count, end=None)


def params(count: int) -> Params:
    return Params(temperature=0, max_tokens=count, ignore_eos=True)


async def until_starved(stream: Stream) -> list[Delta]:
    deltas: list[Delta] = []
    while not stream.is_starved:
        deltas.append(await anext(stream))
    return deltas


def ids_of(deltas: list[Delta]) -> tuple[int, ...]:
    return tuple(token for delta in deltas for token in delta.token_ids)


@pytest.mark.slow
def test_credit_is_exact_and_goes_on_without_a_seam(play_placed: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(40)) as stream:
            stream.limit(0)
            seen: list[Delta] = []
            granted = 0
            for grant in (1, 7, 20, 11):
                while engine.stats().core.paused == 0:
                    await engine.generate("other", params(20))
                # What stands in an incomplete character is granted and not read.
                assert granted - 4 < len(ids_of(seen)) <= granted
                granted += grant
                stream.grant(grant)
                seen += await until_starved(stream)
            stream.grant(1)
            async for delta in stream:
                seen.append(delta)
        assert ids_of(seen) == truth("hello", 40)
        assert seen[-1].finish_reason is FinishReason.LENGTH
        assert all(delta.finish_reason is None for delta in seen[:-1])

    play_placed(body, FAST)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 5, 60])
def test_a_lowered_limit_ends_the_answer(play_placed: Play, most: int):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(300)) as stream:
            stream.limit(10)
            seen = await until_starved(stream)
            stream.amend(max_tokens=most)
            stream.grant(300)
            seen += [delta async for delta in stream]
        ids = ids_of(seen)
        assert ids == truth("hello", len(ids))
        # What was made before the core heard of it is not taken back.
        assert len(ids) == most if most == 60 else 10 <= len(ids) < 300
        assert seen[-1].finish_reason is FinishReason.LENGTH

    play_placed(body, FAST)


@pytest.mark.slow
def test_a_raised_limit_lets_an_answer_go_on(play_placed: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(12)) as stream:
            stream.limit(2)
            stream.amend(max_tokens=50, priority=-3)
            stream.grant(100)
            answer = await stream.collect()
        assert answer.token_ids == truth("hello", 50)

    play_placed(body, FAST)


def test_a_limit_is_cut_to_the_context(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(3)) as stream:
            stream.limit(1)
            stream.amend(max_tokens=10**9)
            stream.grant(10**6)
            answer = await stream.collect()
        assert len(answer.token_ids) == engine.max_context - len("hello")

    play(body, FakeModel(step_s=0.0), max_context=64)


def test_a_paused_answer_is_cancelled_and_frees_its_pages(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(300)) as stream:
            stream.limit(3)
            await until_starved(stream)
            stream.cancel()
            last = [delta async for delta in stream][-1]
        assert last.finish_reason is FinishReason.CANCELLED
        await engine.wait_idle()
        assert engine.stats().core.pages_used == 0

    play(body, FAST)


@pytest.mark.slow
def test_a_lost_core_repeats_nothing_that_was_withheld_or_amended():
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001), placement="process") as engine:
            async with engine.stream("hello", params(300)) as stream:
                stream.limit(4)
                seen = await until_starved(stream)
                stream.amend(max_tokens=30)
                while engine.stats().core.paused == 0:
                    await engine.generate("other", params(5))
                kill(engine)
                stream.grant(100)
                seen += [delta async for delta in stream]
            assert ids_of(seen) == truth("hello", 30)

    asyncio.run(main())


def kill(engine: Engine) -> None:
    pid = getattr(engine.core, "pid", None)
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


def test_control_values_out_of_range_are_refused_by_name(play: Play):
    async def body(engine: Engine) -> None:
        async with engine.stream("hello", params(3)) as stream:
            for field, call in (
                ("credit", lambda: stream.limit(-1)),
                ("tokens", lambda: stream.grant(0)),
                ("max_tokens", lambda: stream.amend(max_tokens=0)),
                ("priority", lambda: stream.amend(priority=10**9)),
            ):
                with pytest.raises(InvalidRequest) as caught:
                    call()
                assert caught.value.field == field

    play(body, FAST)
