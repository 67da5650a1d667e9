"""A bell, rung and heard."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from legato.actors.bell import Bell
from legato.protocol.errors import MailboxMisused


async def wait(bell: Bell) -> None:
    await bell.heard()


def perform(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


def test_a_ring_wakes_the_task_that_waits():
    async def body() -> None:
        bell = Bell("it")
        waiting = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        assert not waiting.done()
        bell.ring()
        await waiting

    perform(body)


def test_a_ring_that_nobody_waits_for_is_not_kept():
    async def body() -> None:
        bell = Bell("it")
        bell.ring()
        waiting = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    perform(body)


def test_a_listener_is_called_at_every_ring_while_no_task_waits():
    async def body() -> None:
        heard: list[str] = []
        bell = Bell("it")
        bell.listen(lambda: heard.append("ring"))
        bell.ring()
        bell.ring()
        waiting = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        bell.ring()
        await waiting
        bell.listen(None)
        bell.ring()
        assert heard == ["ring", "ring"]

    perform(body)


def test_a_reader_cancelled_as_it_waits_makes_room_for_the_next():
    async def body() -> None:
        bell = Bell("it")
        first = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        bell.ring()
        await second

    perform(body)


def test_a_second_reader_is_refused():
    async def body() -> None:
        bell = Bell("it")
        first = asyncio.create_task(wait(bell))
        await asyncio.sleep(0)
        with pytest.raises(MailboxMisused, match="one reader"):
            bell.heard()
        bell.ring()
        await first

    perform(body)


def test_another_loop_is_refused():
    async def body() -> None:
        bell = Bell("it")

        bell.check()
        with pytest.raises(MailboxMisused, match="another event loop"):
            await asyncio.to_thread(bell.check)

    perform(body)
