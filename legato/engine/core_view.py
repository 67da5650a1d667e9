"""What the front end knows of the core: its last report, and who waits for it to rest.

Lives in the front end's loop; the detokenizer feeds it.
"""

import asyncio
from itertools import count

from msgspec import structs

from ..actors.orders import OrderLine
from ..protocol.core import CoreReport, CoreStats, WhenIdle

# What a core that is gone has no more.
HELD = (
    *("running", "waiting", "paused", "live", "in_flight"),
    *("pages_used", "pages_cached"),
)


class CoreView:
    """The core as last heard of."""

    def __init__(self) -> None:
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._tokens = count()
        self._closed = False
        self.stats = CoreStats()

    def hear(self, report: CoreReport) -> None:
        """Take a report."""
        if report.stats is not None and not self._closed:
            self.stats = report.stats
        for token in report.idle:
            waiter = self._waiters.get(token)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    async def wait_idle(self, line: OrderLine) -> None:
        """Wait until nothing lives in the core; ``stats`` are then of that moment.

        A core that is gone is at rest. Cancelling leaves nothing behind.
        """
        if self._closed:
            return
        token = next(self._tokens)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[token] = waiter
        try:
            line.put_urgent(WhenIdle(token))
            await waiter
        finally:
            del self._waiters[token]

    def ask_again(self, line: OrderLine) -> None:
        """Put the open questions to a new core."""
        for token in self._waiters:
            line.put_urgent(WhenIdle(token))

    def close(self) -> None:
        """Wake whoever waits: the core is gone, and so at rest."""
        self._closed = True
        counted = dict.fromkeys(HELD, 0)
        total = self.stats.pages_total
        self.stats = structs.replace(self.stats, pages_free=total, **counted)
        for waiter in self._waiters.values():
            if not waiter.done():
                waiter.set_result(None)
