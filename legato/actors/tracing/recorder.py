"""The recorder: the core's side of a trace, between orders and reports.

Lives in the core's loop. Its parts travel to the front end in the core's reports.
"""

from ...protocol.tracing import StartTrace, StopTrace, TracePart
from .tracer import Tracer

# Sent beyond this; what is less waits for the next snapshot of the core.
PART_EVENTS = 2048


class Recorder:
    """Starts and stops a tracer as told.

    Args:
        tracer: The core's.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._last: TracePart | None = None

    def obey(self, order: StartTrace | StopTrace) -> None:
        """Start, or stop; the last part is then ready to be taken."""
        if isinstance(order, StartTrace):
            self._tracer.start()
        else:
            self._last = self._tracer.stop()

    def take(self, *, now: bool) -> TracePart | None:
        """Return what is to be reported, or None.

        Args:
            now: Whether a report goes out anyway.
        """
        last, self._last = self._last, None
        if last is not None:
            return last
        tracer = self._tracer
        if not tracer.on or not (now or len(tracer) >= PART_EVENTS):
            return None
        return tracer.take()
