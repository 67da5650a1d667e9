"""How long a busy thread may keep the interpreter from the others.

Python's usual 5 ms is a whole step of a fast device: a front end busy with a thousand
readers would keep the scheduler's thread waiting that long, with the device idle. At
half a millisecond, 256 streams at 200 steps a second left 0.1 % of the device's time
idle in the thread placement, where 5 ms left 1 %.
"""

import sys

SWITCH_S = 0.0005


class Switching:
    """Shortens the interpreter's switch interval while it is wanted.

    The interval is the whole process's: of several engines in one process the first
    to leave takes it back.
    """

    def __init__(self) -> None:
        self._before_s: float | None = None

    def shorten(self) -> None:
        """Shorten it, if it is longer."""
        before_s = sys.getswitchinterval()
        if self._before_s is None and before_s > SWITCH_S:
            self._before_s = before_s
            sys.setswitchinterval(SWITCH_S)

    def restore(self) -> None:
        """Put back what was there, unless somebody changed it meanwhile. Idempotent."""
        before_s, self._before_s = self._before_s, None
        if before_s is not None and abs(sys.getswitchinterval() - SWITCH_S) < 1e-6:
            sys.setswitchinterval(before_s)
