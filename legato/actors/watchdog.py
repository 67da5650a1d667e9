"""The watchdog: notices a core that has work and gets nowhere.

While something is owed it asks the core for its figures a few times in the timeout, and
otherwise never: an idle core is not woken, and a step costs nothing. What it counts are
its own looks, not the clock, so that a program that was stopped or suspended finds no
hang when it goes on. Lives in the front end's loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ..protocol.core import CoreStats, TellStats
from ..protocol.errors import EngineStalled, Failure
from .core import Core
from .orders import OrderLine

log = logging.getLogger("legato.core")

# Looks in the timeout.
LOOKS = 10
# One look more, since the first may come right after a step began, and another, since
# each sees what was answered to the one before.
ENOUGH = LOOKS + 2


class Keeper(Protocol):
    """What the watchdog needs of the core's keeper."""

    @property
    def core(self) -> Core | None:
        """The core of the moment."""
        ...

    def excuse(self, duration_s: float) -> None:
        """Leave time that went by in a hang out of the restart limit's period."""
        ...


class StallListener(Protocol):
    """Who is told of a core that hangs and cannot be ended."""

    def stall(self, failure: Failure) -> None:
        """It hangs."""
        ...

    def recover(self) -> None:
        """It goes on after all, or is gone."""
        ...


class Watchdog:
    """Watches whichever core there is.

    A core hangs if, over so many looks, steps were in flight and none ended, or it did
    not even answer. Grammars that compile, and devices that are being built, are no
    steps.

    Args:
        timeout_s: How long is too long.
        keeper: Has the core, and replaces it once it is ended.
        line: Takes the question.
        owes: Whether anybody waits for the core.
        listener: Told of a core that hangs on.
        pause: Waits so many seconds.
    """

    def __init__(
        self,
        timeout_s: float,
        keeper: Keeper,
        line: OrderLine,
        owes: Callable[[], bool],
        listener: StallListener,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._timeout_s = timeout_s
        self._keeper = keeper
        self._line = line
        self._owes = owes
        self._listener = listener
        self._pause = pause
        self._core: Core | None = None
        self._steps = 0
        self._busy = False
        self._answered = True
        self._num_still = 0
        self._stalled = False

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await self._pause(self._timeout_s / LOOKS)
            await self.look()

    def hear(self, stats: CoreStats) -> None:
        """Take the core's figures, asked for or not."""
        moved = stats.in_flight == 0 or stats.steps != self._steps
        self._answered = True
        self._busy = stats.in_flight > 0
        self._steps = stats.steps
        if moved:
            self._move_on()

    async def look(self) -> None:
        """Ask how the core does; if it hangs, end it, or say that it cannot be ended.

        Cancelling leaves a core that was being ended as good as ended.
        """
        core = self._keeper.core
        if core is not self._core or not self._line.is_connected:
            # A new one, or none: that it starts and loads is no step.
            self._core = core
            self._answered, self._busy = True, False
            self._move_on()
        elif not (self._busy or self._stalled or self._owes()):
            self._num_still = 0
        else:
            self._num_still += 1
            if self._num_still >= ENOUGH and core is not None and not self._stalled:
                await self._end(core)
            if self._answered:
                self._answered = False
                self._line.put_urgent(TellStats())

    def _move_on(self) -> None:
        self._num_still = 0
        if self._stalled:
            self._stalled = False
            log.warning("the core goes on")
            self._listener.recover()

    async def _end(self, core: Core) -> None:
        what = "no step of the device has ended"
        if not self._answered:
            what = "the engine's core has not answered"
        stalled = EngineStalled(f"{what} for {self._timeout_s:g} s")
        log.error("%s (step_timeout_s)", stalled)
        failure = Failure.of(stalled)
        # Before it is lost, which the keeper may hear of before this goes on.
        self._keeper.excuse(self._timeout_s)
        if await core.interrupt(failure):
            self._num_still = 0
        else:
            self._stalled = True
            self._listener.stall(failure)
