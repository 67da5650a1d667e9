"""A histogram that costs little enough to be fed at every token.

Owned by whoever feeds it; its readings travel.
"""

from bisect import bisect_left

from ..protocol.histogram import BOUNDS_S, NUM_BUCKETS, HistogramReading


class Histogram:
    """Counts durations in the buckets of ``BOUNDS_S``.

    Streams of one step have the same gap, to the bit: equal durations in a row are
    counted as one.
    """

    __slots__ = ("_counts", "_last_s", "_times", "_total_s")

    def __init__(self) -> None:
        self._counts = [0] * NUM_BUCKETS
        self._total_s = 0.0
        self._last_s = 0.0
        self._times = 0

    def observe(self, duration_s: float, times: int = 1) -> None:
        """Count a duration, as often as it occurred."""
        if duration_s == self._last_s:
            self._times += times
        else:
            self._settle()
            self._last_s = duration_s
            self._times = times

    def read(self) -> HistogramReading:
        """Read it."""
        self._settle()
        return HistogramReading(tuple(self._counts), self._total_s)

    def _settle(self) -> None:
        """Enter the duration that was last observed in its bucket."""
        if self._times:
            self._counts[bisect_left(BOUNDS_S, self._last_s)] += self._times
            self._total_s += self._last_s * self._times
            self._times = 0
