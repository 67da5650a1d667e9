"""A histogram that costs little enough to be fed at every token.

Owned by whoever feeds it; its readings travel.
"""

from bisect import bisect_left

from ..protocol.histogram import BOUNDS_S, NUM_BUCKETS, HistogramReading


class Histogram:
    """Counts durations in the buckets of ``BOUNDS_S``."""

    __slots__ = ("_counts", "_total_s")

    def __init__(self) -> None:
        self._counts = [0] * NUM_BUCKETS
        self._total_s = 0.0

    def observe(self, duration_s: float, times: int = 1) -> None:
        """Count a duration, as often as it occurred."""
        self._counts[bisect_left(BOUNDS_S, duration_s)] += times
        self._total_s += duration_s * times

    def read(self) -> HistogramReading:
        """Read it."""
        return HistogramReading(tuple(self._counts), self._total_s)
