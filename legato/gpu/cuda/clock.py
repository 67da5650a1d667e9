"""Device time, told by the host's clock."""

import time

from .device import Mark


class DeviceClock:
    """Places steps, one after the other, on ``time.perf_counter()``.

    Each step is measured from the end of the one before: a device tells times between
    two marks as float32, which for marks an hour apart means quarters of a
    millisecond. The two clocks drift apart by some millionths; the host knows that no
    step ends after it was seen to end nor begins before it was launched, and what
    would, is moved.

    Args:
        origin: A mark that was just reached.
    """

    def __init__(self, origin: Mark) -> None:
        self._last, self._last_s = origin, time.perf_counter()

    def place(
        self, started: Mark, ended: Mark, launched_s: float
    ) -> tuple[float, float]:
        """Say when a step began and ended; both marks are reached.

        Args:
            started: Before its first work.
            ended: Behind its last.
            launched_s: When the host began to launch it.
        """
        now_s = time.perf_counter()
        started_s = self._last_s + started.seconds_after(self._last)
        took_s = max(ended.seconds_after(started), 0.0)
        started_s = min(max(started_s, launched_s), now_s - took_s)
        self._last, self._last_s = ended, started_s + took_s
        return started_s, self._last_s
