"""The keeper: watches over the core and puts another in its place if it dies.

The next core is told of every stream that is still wanted, with prompt and emitted
tokens, and goes on from there: readers see a pause, nothing twice, nothing missing.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from ..mailbox import Address
from ..protocol.core import CoreReport
from ..protocol.errors import Failure
from .core import Core
from .orders import Order, OrderLine
from .restarts import RestartLimit

log = logging.getLogger("legato.core")


class CoreKeeper:
    """Keeps a core running; lives in the front end's loop.

    Args:
        make: Makes a core that is not yet started.
        line: Is led to each core in turn.
        limit: How often the core may be replaced.
        on_ready: Told when a new core is ready for orders, to send it the old ones.
        on_failure: Told once, when there will be no core any more.
    """

    def __init__(
        self,
        make: Callable[[], Core],
        line: OrderLine,
        limit: RestartLimit,
        on_ready: Callable[[], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        self._make = make
        self._line = line
        self._limit = limit
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._core: Core | None = None
        self._orders: Address[Order] | None = None
        self._lost: asyncio.Event = asyncio.Event()
        self._cause = Failure("", "")
        self._retired = False
        self._excused_s = 0.0

    @property
    def core(self) -> Core | None:
        """The core of the moment."""
        return self._core

    @property
    def num_restarts(self) -> int:
        """Cores replaced so far."""
        return self._limit.num_restarts

    async def start(self) -> None:
        """Start the first core.

        Raises:
            EngineFailed: It could not be started.
        """
        self._core = self._make()
        self._orders = await self._core.start()

    def hear(self, report: CoreReport) -> None:
        """Take news of the core."""
        self._line.flush()
        if report.lost is not None:
            self._line.connect(None)
            self._cause = report.lost
            self._lost.set()
        elif report.limits is not None and self._orders is not None:
            # Not before: a core takes orders once its device says what it can hold.
            # Later reports of limits are of a device that the core itself replaced.
            self._line.connect(self._orders)
            self._orders = None
            self._on_ready()
        if report.failure is not None:
            self._on_failure(report.failure)

    def excuse(self, duration_s: float) -> None:
        """Leave time that went by in a hang out of the restart limit's period.

        Otherwise what hangs again and again, each time for longer than the period,
        would never reach the limit.
        """
        self._excused_s += duration_s

    async def run(self) -> None:
        """Replace each core that is lost, until cancelled or past the limit."""
        while True:
            await self._lost.wait()
            if self._retired:
                return
            core = self._core
            if core is not None:
                core.stop()
                await core.join()
            if not self._limit.allow(time.perf_counter() - self._excused_s):
                self._on_failure(self._cause)
                return
            log.error("the core was lost and is replaced: %s", self._cause.message)
            # Not before: if this actor fails on the way, its next life goes on here.
            self._lost.clear()
            try:
                await self.start()
            except Exception as error:  # a system without processes left, for example
                self._cause = Failure.of(error)
                self._lost.set()

    def retire(self) -> None:
        """Ask the core to end, and put none in its place. Idempotent."""
        self._retired = True
        self._line.close()
        if self._core is not None:
            self._core.stop()

    async def stop(self) -> None:
        """End the core and wait until it has left."""
        self.retire()
        if self._core is not None:
            await self._core.join()
