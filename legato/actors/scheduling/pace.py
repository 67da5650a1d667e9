"""Pace: how fast requests come and how fast they get their turn.

Sums that decay with a time constant of seconds: constant memory, and always about the
recent past.
"""

from math import exp

RECENT_S = 5.0
"""Time constant of every rate here."""

MIN_RETRY_S = 0.1
MAX_RETRY_S = 60.0


class Rate:
    """Units per second, lately."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at_s = 0.0
        self._since_s: float | None = None

    def add(self, units: float, now_s: float) -> None:
        """Count units at a moment."""
        if self._since_s is None:
            self._since_s = self._at_s = now_s
        self._sum = self._sum * self._decay(now_s) + units
        self._at_s = max(self._at_s, now_s)

    def per_s(self, now_s: float) -> float:
        """The rate, as far as it has been observed; 0 before the first unit."""
        if self._since_s is None:
            return 0.0
        # While younger than the time constant, a sum is about the time it has seen.
        seen = 1 - exp(-max(now_s - self._since_s, 0.1) / RECENT_S)
        return self._sum * self._decay(now_s) / (RECENT_S * seen)

    def _decay(self, now_s: float) -> float:
        return exp(-max(now_s - self._at_s, 0.0) / RECENT_S)


class Pace:
    """The rates that admission and batching look at."""

    def __init__(self) -> None:
        self.arrivals = Rate()
        self.started_tokens = Rate()

    def retry_after_s(self, excess_tokens: int, now_s: float) -> float:
        """Seconds until so many waiting tokens have had their turn."""
        rate = self.started_tokens.per_s(now_s)
        if rate <= 0:
            return 1.0
        return min(max(excess_tokens / rate, MIN_RETRY_S), MAX_RETRY_S)
