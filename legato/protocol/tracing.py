"""The words of a trace: what happened on which track, and how it travels.

All times are readings of ``time.perf_counter()``, one clock for every process of a
machine.
"""

import msgspec


class TraceSpan(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Something that took time.

    Args:
        track: Whose: an actor's name, or ``device``.
        name: What was done.
        began_s: The clock then.
        ended_s: And at its end.
        count: How much was done: tokens, rows, messages.
        requests: Requests to draw a flow through it; some of those it served.
    """

    track: str
    name: str
    began_s: float
    ended_s: float
    count: int = 0
    requests: tuple[int, ...] = ()


class TraceCount(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """A figure from one moment on.

    Args:
        track: Whose: a mailbox's name.
        at_s: The clock.
        value: How many.
    """

    track: str
    at_s: float
    value: float


TraceEvent = TraceSpan | TraceCount


class TracePart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some of a trace.

    Args:
        events: In the order of their recording.
        dropped: Older ones that the recorder had no room for.
        last: Nothing follows.
    """

    events: tuple[TraceEvent, ...]
    dropped: int = 0
    last: bool = False

    def merge(self, later: "TracePart") -> "TracePart":
        """Join a later part onto this one."""
        return TracePart(
            self.events + later.events,
            self.dropped + later.dropped,
            self.last or later.last,
        )


class StartTrace(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the core to record what it does, and to report it now and then."""


class StopTrace(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the core to stop recording; a part marked ``last`` answers."""
