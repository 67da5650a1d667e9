"""What a histogram counted of late: the last five to ten seconds.

Costs nothing at each observation: now and then the histogram is read, and what came
since the last reading but one is of late. Owned by the engine's metrics.
"""

from collections import deque

from ..actors.histogram import Histogram
from ..protocol.histogram import HistogramReading

SPAN_S = 5.0


class Recent:
    """A histogram seen through a sliding window.

    Args:
        histogram: Fed by somebody else.
        now_s: The clock.
    """

    def __init__(self, histogram: Histogram, now_s: float) -> None:
        self._histogram = histogram
        self._marks = deque([(now_s, histogram.read())], maxlen=2)

    def advance(self, now_s: float) -> None:
        """Let the window slide; to be called every second or so."""
        if now_s - self._marks[-1][0] >= SPAN_S:
            self._marks.append((now_s, self._histogram.read()))

    def read(self) -> HistogramReading:
        """What was counted in the window."""
        return self._histogram.read().since(self._marks[0][1])

    def per_s(self, now_s: float) -> float:
        """How many were counted a second."""
        span_s = now_s - self._marks[0][0]
        return self.read().count / span_s if span_s > 0 else 0.0
