"""Pace: how fast requests come and how fast they get their turn.

Sums that decay with a time constant of seconds: constant memory, and always about the
recent past.
"""

from math import exp, inf

RECENT_S = 5.0
"""Time constant of every rate here."""

ENOUGH_S = 1.0
"""Seconds with a line before its pace is believed."""

STEPS_KEPT = 64
"""The quickest is of the last so many to twice as many steps."""

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


class Turns:
    """How fast those who wait get their turn, while there are any.

    Without a line a rate says how fast requests come, and nothing about how fast they
    could go.
    """

    def __init__(self) -> None:
        self._requests = self._tokens = self._seconds = 0.0
        self._at_s: float | None = None

    def add(self, tokens: int) -> None:
        """Count a start, if it had to wait for its turn."""
        if self._at_s is not None:
            self._requests += 1
            self._tokens += tokens

    def watch(self, now_s: float, *, waiting: bool) -> None:
        """Say whether anyone still waits now that a step was planned."""
        if self._at_s is not None:
            passed_s = max(now_s - self._at_s, 0.0)
            decay = exp(-passed_s / RECENT_S)
            self._requests *= decay
            self._tokens *= decay
            self._seconds = self._seconds * decay + passed_s
        self._at_s = now_s if waiting else None

    def wait_s(self, requests: int, tokens: int) -> float:
        """Seconds until so many had their turn; 0 while too little is known."""
        if self._seconds < ENOUGH_S or not self._requests:
            return 0.0
        return self._seconds * min(requests / self._requests, tokens / self._tokens)


class Steps:
    """How quick a step can be: the quickest of the last ones."""

    def __init__(self) -> None:
        self._count = 0
        self._least_s = self._before_s = inf

    def add(self, seconds: float) -> None:
        """Count a step."""
        if self._count == STEPS_KEPT:
            self._count, self._before_s, self._least_s = 0, self._least_s, inf
        self._count += 1
        self._least_s = min(self._least_s, seconds)

    @property
    def least_s(self) -> float:
        """The quickest; 0 before the first."""
        least_s = min(self._least_s, self._before_s)
        return least_s if least_s < inf else 0.0


class Pace:
    """The rates that admission and batching look at."""

    def __init__(self) -> None:
        self.arrivals = Rate()
        self.started_tokens = Rate()
        self.turns = Turns()
        self.steps = Steps()

    def retry_after_s(self, excess_tokens: int, now_s: float) -> float:
        """Seconds until so many waiting tokens have had their turn."""
        rate = self.started_tokens.per_s(now_s)
        if rate <= 0:
            return 1.0
        return min(max(excess_tokens / rate, MIN_RETRY_S), MAX_RETRY_S)
