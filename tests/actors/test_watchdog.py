"""The watchdog's judgement, look by look; no time goes by here."""

import asyncio
from collections.abc import Awaitable, Callable

from legato.actors.orders import Order, OrderLine
from legato.actors.watchdog import ENOUGH, LOOKS, Watchdog
from legato.mailbox import Address, Mailbox
from legato.protocol.core import CoreStats, TellStats
from legato.protocol.errors import EngineStalled, Failure


class StubCore:
    """A core that can be ended, or cannot."""

    def __init__(self, mortal: bool, excused: Callable[[], float]) -> None:
        self.inbox = Mailbox[Order]("core", 64)
        self.excused = excused
        self.excused_s = 0.0
        self.mortal = mortal
        self.interrupted: list[Failure] = []

    async def start(self) -> Address[Order]:
        return self.inbox.address()

    def stop(self) -> None:
        pass

    async def interrupt(self, failure: Failure) -> bool:
        self.interrupted.append(failure)
        self.excused_s = self.excused()
        return self.mortal

    async def join(self) -> None:
        pass


class Yard:
    """A watchdog, what it watches, and what it says."""

    def __init__(self, mortal: bool = True) -> None:
        self.core = StubCore(mortal, lambda: self.excused_s)
        self.line = OrderLine()
        self.owing = True
        self.excused_s = 0.0
        self.news: list[str] = []
        self.dog = Watchdog(80.0, self, self.line, lambda: self.owing, self)

    def excuse(self, duration_s: float) -> None:
        self.excused_s += duration_s

    def stall(self, failure: Failure) -> None:
        self.news.append(failure.message)

    def recover(self) -> None:
        self.news.append("recovered")

    async def appear(self, mortal: bool = True) -> None:
        """A core is ready, and has been seen."""
        self.core = StubCore(mortal, lambda: self.excused_s)
        self.line.connect(await self.core.start())
        await self.dog.look()

    async def look(self, times: int, **figures: int) -> int:
        """Look so often, with these figures for an answer; say how often it asked."""
        num_asked = 0
        for _ in range(times):
            await self.dog.look()
            if self.core.inbox.drain_nowait() and figures:
                num_asked += 1
                self.dog.hear(CoreStats(**figures))
        return num_asked


def perform(body: Callable[[Yard], Awaitable[None]], mortal: bool = True) -> None:
    async def main() -> None:
        yard = Yard(mortal)
        await yard.appear(mortal)
        await body(yard)

    asyncio.run(main())


def test_a_step_that_does_not_end_is_a_hang_after_the_timeout_and_not_before():
    async def body(yard: Yard) -> None:
        yard.dog.hear(CoreStats(in_flight=2, steps=7))
        # The first may come right after the step began, and the last must have heard
        # that it still ran at the timeout.
        assert await yard.look(ENOUGH - 1, in_flight=2, steps=7) == LOOKS + 1
        assert not yard.core.interrupted
        await yard.look(1)
        (failure,) = yard.core.interrupted
        assert failure.code == EngineStalled.code
        assert failure.message == "no step of the device has ended for 80 s"
        assert yard.core.excused_s == 80.0  # before it could be replaced
        assert yard.news == []  # a core that is ended is replaced

    perform(body)


def test_a_core_that_does_not_answer_hangs_and_is_asked_once():
    async def body(yard: Yard) -> None:
        for _ in range(ENOUGH - 1):
            await yard.dog.look()
        assert yard.core.inbox.drain_nowait() == [TellStats()]
        assert not yard.core.interrupted
        await yard.dog.look()
        (failure,) = yard.core.interrupted
        assert failure.message == "the engine's core has not answered for 80 s"

    perform(body)


def test_an_idle_core_is_not_asked():
    async def body(yard: Yard) -> None:
        yard.owing = False
        await yard.look(3 * LOOKS)
        assert yard.core.inbox.stats().put == 0
        assert not yard.core.interrupted

    perform(body)


def test_steps_that_hang_for_nobody_are_found_too():
    async def body(yard: Yard) -> None:
        yard.owing = False
        yard.dog.hear(CoreStats(in_flight=1, steps=7))
        await yard.look(ENOUGH, in_flight=1, steps=7)
        assert len(yard.core.interrupted) == 1

    perform(body)


def test_one_step_in_the_timeout_is_enough():
    async def body(yard: Yard) -> None:
        for steps in range(5):
            await yard.look(LOOKS, in_flight=1, steps=steps)
        assert not yard.core.interrupted

    perform(body)


def test_who_is_paused_or_waits_for_a_grammar_makes_no_hang():
    async def body(yard: Yard) -> None:
        await yard.look(3 * LOOKS, in_flight=0, live=2, steps=7)
        assert not yard.core.interrupted

    perform(body)


def test_an_idle_time_before_a_step_does_not_count():
    async def body(yard: Yard) -> None:
        yard.owing = False
        await yard.look(3 * LOOKS)
        yard.owing = True
        await yard.look(ENOUGH - 1, in_flight=1, steps=0)
        assert not yard.core.interrupted

    perform(body)


def test_a_core_that_loads_is_given_its_time():
    async def body(yard: Yard) -> None:
        yard.dog.hear(CoreStats(in_flight=2, steps=7))
        await yard.look(ENOUGH - 1)
        first = yard.core
        yard.line.connect(None)  # lost
        await yard.look(3 * LOOKS)
        await yard.appear()
        await yard.look(ENOUGH - 1, in_flight=2, steps=7)
        assert not first.interrupted
        assert not yard.core.interrupted
        await yard.look(1)
        assert yard.core.interrupted

    perform(body)


def test_a_core_that_cannot_be_ended_is_told_of_once_and_watched_on():
    async def body(yard: Yard) -> None:
        yard.dog.hear(CoreStats(in_flight=2, steps=7))
        await yard.look(3 * LOOKS, in_flight=2, steps=7)
        assert len(yard.core.interrupted) == 1
        assert yard.news == ["no step of the device has ended for 80 s"]
        yard.owing = False
        assert await yard.look(2, in_flight=2, steps=7) == 2

    perform(body, mortal=False)


def test_a_step_that_ends_after_all_is_a_recovery_at_once():
    async def body(yard: Yard) -> None:
        yard.dog.hear(CoreStats(in_flight=2, steps=7))
        await yard.look(ENOUGH, in_flight=2, steps=7)
        yard.dog.hear(CoreStats(in_flight=1, steps=8))
        yard.dog.hear(CoreStats(in_flight=0, steps=9))
        assert yard.news[1:] == ["recovered"]
        # And a second hang is a new one.
        yard.dog.hear(CoreStats(in_flight=2, steps=10))
        await yard.look(ENOUGH, in_flight=2, steps=10)
        assert len(yard.core.interrupted) == 2

    perform(body, mortal=False)


def test_a_core_that_is_lost_while_it_hangs_is_a_recovery():
    async def body(yard: Yard) -> None:
        yard.dog.hear(CoreStats(in_flight=2, steps=7))
        await yard.look(ENOUGH, in_flight=2, steps=7)
        await yard.appear()
        assert yard.news[1:] == ["recovered"]

    perform(body, mortal=False)


def test_it_looks_a_few_times_in_the_timeout():
    class Enough(Exception):
        pass

    pauses: list[float] = []

    async def pause(duration_s: float) -> None:
        pauses.append(duration_s)
        if len(pauses) == 4:
            raise Enough

    async def main() -> None:
        yard = Yard()
        dog = Watchdog(80.0, yard, yard.line, lambda: True, yard, pause)
        try:
            await dog.run()
        except Enough:
            pass

    asyncio.run(main())
    assert pauses == [80.0 / LOOKS] * 4
