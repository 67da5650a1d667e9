"""How often something may be restarted before its failure is final.

Knows time only as it is told. Owned by whoever supervises.
"""

from collections import deque


class RestartLimit:
    """At most ``intensity`` restarts in any ``period_s``, after Erlang's supervisors.

    Args:
        intensity: Restarts allowed; 0 allows none.
        period_s: The window they are counted in.
    """

    def __init__(self, intensity: int = 3, period_s: float = 60.0) -> None:
        self._intensity = intensity
        self._period_s = period_s
        self._at_s: deque[float] = deque()
        self.num_restarts = 0

    def allow(self, now_s: float) -> bool:
        """Count one more restart, or say that it would be too many."""
        while self._at_s and now_s - self._at_s[0] > self._period_s:
            self._at_s.popleft()
        if len(self._at_s) >= self._intensity:
            return False
        self._at_s.append(now_s)
        self.num_restarts += 1
        return True
