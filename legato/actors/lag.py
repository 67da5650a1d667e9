"""How late an event loop is: the time its callbacks wait for their turn.

A timer a few times a second, no polling: it says when it is due and looks how late it
came. Lives in the loop it measures.
"""

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter

from .histogram import Histogram

log = logging.getLogger("legato.lag")

PERIOD_S = 0.25


class LoopLag:
    """Measures the loop it is started in.

    Timers of uvloop are due at whole milliseconds, so that an idle loop reads up to
    one millisecond.

    Args:
        on_tick: Called at every measurement.
    """

    def __init__(self, on_tick: Callable[[float], None] = lambda now_s: None) -> None:
        self.histogram = Histogram()
        self.last_s = 0.0
        self._on_tick = on_tick
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure the running loop."""
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        """Leave no timer behind. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_s = perf_counter() + PERIOD_S
        self._timer = loop.call_later(PERIOD_S, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = perf_counter()
        self.last_s = max(0.0, now_s - self._due_s)
        self.histogram.observe(self.last_s)
        self._arm(loop)
        try:
            self._on_tick(now_s)
        except Exception:
            # Figures are worth less than the engine; the next ones may come right.
            log.exception("the metrics cannot be brought up to date")
