"""Recording a trace of the whole engine: front end and core, for a few seconds.

Lives in the front end's loop. The core records on its own and sends its parts with
its reports; both sides read the same clock.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from time import perf_counter

from ..actors.blocking import in_thread
from ..actors.orders import OrderLine
from ..actors.tracing import Tracer, draw
from ..mailbox import MailboxStats
from ..protocol.errors import InvalidRequest, Overloaded
from ..protocol.tracing import StartTrace, StopTrace, TracePart
from ..version import __version__

MAX_TRACE_S = 600.0

# A core that was lost, or has nothing to report through, must not keep anybody.
LAST_PART_S = 2.0

MAILBOX_PERIOD_S = 0.005

# The core itself records these, at every message.
CORE_MAILBOXES = frozenset({"scheduler", "executor", "orders"})

# About a hundred bytes each, and a file of a hundred megabytes drawn.
MAX_EVENTS = 1 << 20


class Tracing:
    """Traces on demand, one at a time.

    Args:
        tracer: The front end's; actors of this loop record in it.
        line: To the core.
        mailboxes: Reads the mailboxes that the front end can see.
    """

    def __init__(
        self,
        tracer: Tracer,
        line: OrderLine,
        mailboxes: Callable[[], Iterable[MailboxStats]],
    ) -> None:
        self.tracer = tracer
        self._line = line
        self._mailboxes = mailboxes
        self._parts: list[TracePart] = []
        self._num_events = 0
        self._last = asyncio.Event()

    def hear(self, part: TracePart) -> None:
        """Take what the core recorded."""
        if self._num_events + len(part.events) > MAX_EVENTS:
            part = TracePart((), part.dropped + len(part.events), part.last)
        self._parts.append(part)
        self._num_events += len(part.events)
        if part.last:
            self._last.set()

    def renew(self) -> None:
        """Ask a new core to record, if its predecessor did."""
        if self.tracer.on:
            self._line.put_urgent(StartTrace())

    async def record(self, duration_s: float, model: str) -> bytes:
        """Record, and return the trace as JSON for Perfetto or Chrome.

        Cancelling ends the recording and leaves nothing behind.

        Args:
            duration_s: How long; more than 0, at most ten minutes.
            model: Named in the trace.

        Raises:
            InvalidRequest: A length out of range.
            Overloaded: Another trace is being recorded.
        """
        if not 0 < duration_s <= MAX_TRACE_S:
            raise InvalidRequest(
                f"a trace takes more than 0 and at most {MAX_TRACE_S:g} seconds, "
                f"not {duration_s!r}"
            )
        if self.tracer.on:
            raise Overloaded("another trace is being recorded", retry_after_s=1.0)
        began_s = perf_counter()
        parts = await self._collect(duration_s)
        events = [event for part in parts for event in part.events]
        about = {
            "engine": f"legato {__version__}",
            "model": model,
            "seconds": round(perf_counter() - began_s, 3),
            "dropped_events": sum(part.dropped for part in parts),
        }
        return await in_thread(lambda: draw(events, about))

    async def _collect(self, duration_s: float) -> list[TracePart]:
        self._parts, self._num_events = [], 0
        self._last.clear()
        self.tracer.start()
        sampler = asyncio.create_task(self._sample(), name="legato-trace")
        try:
            self._line.put_urgent(StartTrace())
            try:
                await asyncio.sleep(duration_s)
            finally:
                self._line.put_urgent(StopTrace())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_PART_S):
                    await self._last.wait()
        finally:
            sampler.cancel()
            front = self.tracer.stop()  # first: the wait can be cancelled too
            await asyncio.wait([sampler])
        parts, self._parts = self._parts, []
        return [front, *parts]

    async def _sample(self) -> None:
        """Read the depth of the front end's mailboxes, where it changed."""
        depths: dict[str, int] = {}
        while True:
            now_s = perf_counter()
            for box in self._mailboxes():
                depth = box.depth + box.urgent_depth
                if box.name not in CORE_MAILBOXES and depths.get(box.name) != depth:
                    depths[box.name] = depth
                    self.tracer.count(box.name, now_s, depth)
            await asyncio.sleep(MAILBOX_PERIOD_S)
