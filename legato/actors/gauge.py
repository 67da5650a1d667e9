"""What the device did with its time: steps, and the bubbles between them.

A bubble is time the device stood still although work could run: from the end of the
step before, or from the moment work appeared if that was later, to the start of the
next step. Owned by the scheduler.
"""

import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

from .histogram import Histogram


class DeviceGauge:
    """Counts steps, busy time, bubbles and planning time, all in seconds."""

    def __init__(self) -> None:
        self.steps = 0
        self.busy_s = 0.0
        self.idle_s = 0.0
        self.plan_s = 0.0
        self.last_step_s = 0.0
        self.last_idle_s = 0.0
        self.step_times = Histogram()
        self.bubbles = Histogram()
        self.plan_times = Histogram()
        self._finished_s = 0.0
        self._work_since_s: float | None = None
        self._due_s: deque[float] = deque()

    def note_work(self, waiting: bool, now_s: float) -> None:
        """Say whether anything could run now."""
        if not waiting:
            self._work_since_s = None
        elif self._work_since_s is None:
            self._work_since_s = now_s

    def note_plan(self, now_s: float) -> None:
        """Say that a plan was posted."""
        since_s = self._work_since_s
        self._due_s.append(now_s if since_s is None else since_s)

    def note_step(self, started_s: float, finished_s: float) -> None:
        """Count a finished step, in the order of their plans."""
        due_s = self._due_s.popleft()
        self.last_step_s = finished_s - started_s
        self.last_idle_s = max(0.0, started_s - max(due_s, self._finished_s))
        self.steps += 1
        self.busy_s += self.last_step_s
        self.idle_s += self.last_idle_s
        self.step_times.observe(self.last_step_s)
        self.bubbles.observe(self.last_idle_s)
        self._finished_s = finished_s

    def forget_plans(self) -> None:
        """Drop the plans of a device that died."""
        self._due_s.clear()

    @contextmanager
    def planning(self) -> Generator[None]:
        """Count the time inside as planning."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.note_planning(time.perf_counter() - began_s)

    def note_planning(self, duration_s: float) -> None:
        """Count time spent planning a step, or applying its result."""
        self.plan_s += duration_s
        self.plan_times.observe(duration_s)
