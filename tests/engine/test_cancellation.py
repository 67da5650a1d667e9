"""Cancellation around the engine's own life, once and again, at every moment."""

import asyncio
import threading

import anyio
import psutil
import pytest

from legato import Engine, FakeModel, SamplingParams

pytestmark = pytest.mark.slow


def children() -> set[int]:
    """Process ids of this process's children, the unburied too."""
    return {child.pid for child in psutil.Process().children()}


async def live(placement: str) -> None:
    async with Engine(FakeModel(), placement=placement) as engine:
        params = SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)
        await engine.generate("x", params)


@pytest.mark.parametrize("placement", ["thread", "process"])
@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 100, 1000])
def test_cancelled_once_or_twice_nothing_is_left(placement: str, turns: int):
    async def main() -> None:
        for again in (False, True):
            life = asyncio.create_task(live(placement))
            for _ in range(turns):
                await asyncio.sleep(0)
            life.cancel()
            await asyncio.sleep(0)
            if again:
                life.cancel()
            await asyncio.wait([life])
            assert life.cancelled()

    threads, before = threading.active_count(), children()
    asyncio.run(main())
    assert threading.active_count() == threads
    assert children() == before


@pytest.mark.parametrize("placement", ["thread", "process"])
@pytest.mark.parametrize("timeout_s", [0.0, 0.003, 0.03, 0.3])
def test_an_anyio_scope_around_it_leaves_nothing(placement: str, timeout_s: float):
    async def main() -> None:
        with anyio.move_on_after(timeout_s):
            await live(placement)

    threads, before = threading.active_count(), children()
    asyncio.run(main())
    assert threading.active_count() == threads
    assert children() == before
