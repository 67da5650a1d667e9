"""The tracer: a bounded ring of what happened, off until somebody asks.

Whoever records asks ``tracer.on`` first, and that is all it costs while it is off. One
tracer for each loop, and only that loop records in it.
"""

from collections import deque
from collections.abc import Sequence

from ...protocol.tracing import TraceCount, TraceEvent, TracePart, TraceSpan

MAX_EVENTS = 1 << 16

# A flow touches every eighth step of a request: enough to see it advance, and a trace
# of a thousand streams stays small enough to be opened.
STEPS_A_SAMPLE = 8
REQUESTS_A_SAMPLE = 16


class Tracer:
    """Records spans and counts.

    Args:
        max_events: How many are kept; older ones are dropped, and counted.
    """

    __slots__ = ("_events", "_num_recorded", "_num_taken", "on")

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self.on = False
        self._events: deque[TraceEvent] = deque(maxlen=max_events)
        self._num_recorded = 0
        self._num_taken = 0

    def __len__(self) -> int:
        return len(self._events)

    def start(self) -> None:
        """Begin with an empty ring."""
        self._events.clear()
        self._num_recorded = self._num_taken = 0
        self.on = True

    def stop(self) -> TracePart:
        """End, and return what was not taken yet."""
        self.on = False
        return self.take(last=True)

    def take(self, *, last: bool = False) -> TracePart:
        """Empty the ring."""
        events = tuple(self._events)
        dropped = self._num_recorded - self._num_taken - len(events)
        self._num_taken = self._num_recorded
        self._events.clear()
        return TracePart(events, dropped, last)

    def span(
        self,
        track: str,
        name: str,
        began_s: float,
        ended_s: float,
        count: int = 0,
        requests: tuple[int, ...] = (),
    ) -> None:
        """Record something that took time; see ``TraceSpan``."""
        self._num_recorded += 1
        self._events.append(TraceSpan(track, name, began_s, ended_s, count, requests))

    def count(self, track: str, at_s: float, value: float) -> None:
        """Record a figure; see ``TraceCount``."""
        self._num_recorded += 1
        self._events.append(TraceCount(track, at_s, value))


def sample(step: int, requests: Sequence[int]) -> tuple[int, ...]:
    """Choose requests whose flow touches this step.

    Rows keep their order from step to step, so that the same requests are chosen.
    """
    if step % STEPS_A_SAMPLE:
        return ()
    stride = -(-len(requests) // REQUESTS_A_SAMPLE) or 1
    return tuple(requests[::stride])
