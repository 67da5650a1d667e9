"""Cancellation at every wait of a request's life, and of an engine's own."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from legato import Engine, FakeModel, SamplingParams

Play = Callable[..., None]

SHORT = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
LONG = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)


def test_a_request_can_be_cancelled_at_every_wait(play_placed: Play, aftermath: Any):
    async def body(engine: Engine) -> None:
        async def life() -> None:
            answer = await engine.generate("cut me short", SHORT)
            assert len(answer.token_ids) == 6

        waits = await aftermath.cut_everywhere(life, lambda: aftermath.settle(engine))
        assert waits >= 2

    play_placed(body)


def test_others_go_on_while_a_request_is_cancelled_at_every_wait(
    play: Play, aftermath: Any
):
    async def body(engine: Engine) -> None:
        async def beside() -> None:
            answer = await engine.generate("beside", SHORT)
            assert len(answer.token_ids) == 6

        async with engine.stream("beside", LONG) as other:
            await aftermath.cut_everywhere(
                lambda: engine.generate("cut me short", SHORT), beside
            )
            assert len((await other.collect()).token_ids) == 400

    play(body)


def test_waiting_for_rest_and_tracing_can_be_cancelled_at_every_wait(
    play: Play, aftermath: Any
):
    async def body(engine: Engine) -> None:
        async def look_on() -> None:
            async with engine.stream("x", SHORT) as stream:
                await stream.collect()
                await engine.wait_idle()
            await engine.trace(0.001)

        await aftermath.cut_everywhere(look_on, lambda: aftermath.settle(engine))

    play(body)


async def live(placement: str) -> None:
    async with Engine(FakeModel(), placement=placement) as engine:
        await engine.generate("x", SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["thread", "process"])
def test_an_engine_can_be_cancelled_at_every_wait(placement: str, aftermath: Any):
    async def nothing_more() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    async def main() -> None:
        # A child takes long to start, and the moments differ in this loop alone.
        moments = (False,) if placement == "process" else (False, True)
        waits = await aftermath.cut_everywhere(
            lambda: live(placement), nothing_more, moments=moments
        )
        assert waits >= 5

    aftermath.run(main)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["thread", "process"])
@pytest.mark.parametrize("turns", [1, 5, 100])
def test_cancelled_twice_nothing_is_left(placement: str, turns: int, aftermath: Any):
    async def main() -> None:
        life = asyncio.create_task(live(placement))
        for _ in range(turns):
            await asyncio.sleep(0)
        life.cancel()
        await asyncio.sleep(0)
        life.cancel()
        await asyncio.wait([life])
        assert life.cancelled()

    aftermath.run(main)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["thread", "process"])
@pytest.mark.parametrize("timeout_s", [0.0, 0.03, 0.3])
def test_an_anyio_scope_around_it_leaves_nothing(
    placement: str, timeout_s: float, aftermath: Any
):
    async def main() -> None:
        with anyio.move_on_after(timeout_s):
            await live(placement)

    aftermath.run(main)
