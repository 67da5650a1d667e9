"""Notices that one thing takes too long, at almost no cost while nothing does.

A timeout around every send would arm and disarm a timer each time, which costs more
than the send's own bookkeeping. Here one timer stays armed while there is work, and
looks at a time stamp when it fires.
"""

import asyncio
from collections.abc import Callable


class StallWatch:
    """Calls back once if something that began does not end in time.

    Args:
        deadline_s: The time.
        on_stall: Called from the loop.
    """

    def __init__(self, deadline_s: float, on_stall: Callable[[], None]) -> None:
        self._deadline_s = deadline_s
        self._on_stall = on_stall
        self._loop = asyncio.get_running_loop()
        self._began_s = 0.0
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Something begins."""
        self._busy = True
        self._began_s = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._deadline_s, self._look)

    def end(self) -> None:
        """It has ended."""
        self._busy = False

    def close(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not self._busy:
            return
        due_s = self._began_s + self._deadline_s
        if self._loop.time() >= due_s:
            self._on_stall()
        else:
            self._timer = self._loop.call_at(due_s, self._look)
