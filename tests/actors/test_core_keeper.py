import asyncio
from collections.abc import Awaitable, Callable

import pytest

from legato.actors import core_keeper
from legato.actors.core_keeper import CoreKeeper
from legato.actors.orders import Order, OrderLine
from legato.actors.restarts import RestartLimit
from legato.gpu.fake import FAKE_LIMITS
from legato.mailbox import Address, Mailbox
from legato.protocol.core import CoreReport, WhenIdle
from legato.protocol.errors import EngineFailed, Failure

READY = CoreReport(limits=FAKE_LIMITS)
LOST = CoreReport(lost=Failure("engine_failed", "killed"))


class StubCore:
    def __init__(self, broken: bool = False) -> None:
        self.inbox = Mailbox[Order]("core", 8)
        self.broken = broken
        self.stopped = self.joined = False

    async def start(self) -> Address[Order]:
        if self.broken:
            raise EngineFailed("stillborn")
        return self.inbox.address()

    def stop(self) -> None:
        self.stopped = True

    async def interrupt(self, failure: Failure) -> bool:
        return False

    async def join(self) -> None:
        self.joined = True


class House:
    def __init__(self, intensity: int, broken: int = 0) -> None:
        self.cores: list[StubCore] = []
        self.broken = broken
        self.line = OrderLine()
        self.ready = 0
        self.failures: list[Failure] = []
        self.keeper = CoreKeeper(
            self._make,
            self.line,
            RestartLimit(intensity),
            self._note_ready,
            self.failures.append,
        )

    def _make(self) -> StubCore:
        later = len(self.cores) > 0
        self.cores.append(StubCore(broken=later and len(self.cores) <= self.broken))
        return self.cores[-1]

    def _note_ready(self) -> None:
        self.ready += 1

    async def lose(self) -> None:
        self.keeper.hear(LOST)
        for _ in range(4):
            await asyncio.sleep(0)


def perform(body: Callable[[House], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        house = House(**options)
        await house.keeper.start()
        house.keeper.hear(READY)
        running = asyncio.create_task(house.keeper.run())
        await asyncio.sleep(0)
        await body(house)
        await house.keeper.stop()
        assert house.cores[-1].joined
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(main())


def test_orders_reach_the_next_core_only_once_it_is_ready():
    async def body(house: House) -> None:
        house.line.put_urgent(WhenIdle(1))
        await house.lose()
        first, second = house.cores
        assert first.stopped
        assert first.joined
        house.line.put_urgent(WhenIdle(2))
        house.keeper.hear(READY)
        house.line.put_urgent(WhenIdle(3))
        assert first.inbox.drain_nowait() == [WhenIdle(1)]
        assert second.inbox.drain_nowait() == [WhenIdle(3)]
        assert house.ready == 2

    perform(body, intensity=3)


def test_a_device_that_the_core_replaced_is_no_new_core():
    async def body(house: House) -> None:
        house.keeper.hear(READY)
        assert house.ready == 1

    perform(body, intensity=3)


def test_past_the_limit_the_cause_is_told_once():
    async def body(house: House) -> None:
        await house.lose()
        await house.lose()
        assert len(house.cores) == 2
        assert house.failures == [LOST.lost]

    perform(body, intensity=1)


def test_time_in_hangs_does_not_let_the_limit_forget(monkeypatch: pytest.MonkeyPatch):
    async def body(house: House) -> None:
        clock = iter(range(0, 100_000, 1000))
        monkeypatch.setattr(core_keeper.time, "perf_counter", lambda: next(clock))
        for _ in range(3):
            house.keeper.excuse(1000.0)
            await house.lose()
        assert len(house.cores) == 3
        assert house.failures == [LOST.lost]

    perform(body, intensity=2)


def test_a_core_that_does_not_start_counts_as_lost():
    async def body(house: House) -> None:
        await house.lose()
        for _ in range(8):
            await asyncio.sleep(0)
        assert len(house.cores) == 3
        house.keeper.hear(READY)
        assert house.ready == 2
        assert house.failures == []

    perform(body, intensity=5, broken=1)
