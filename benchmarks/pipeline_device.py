"""The device of the pipeline benchmark, and the clock it shares with every reader.

The device takes a set time for a step and next to no CPU: whatever a step samples is
its own number modulo 64, as a letter. A reader so knows which step each letter is of,
and finds in the shared clock when that step ended, also from another process.
"""

import mmap
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from legato.gpu.grammar import Grammars
from legato.protocol.steps import RunnerLimits, StepPlan, StepResult

# URL-safe base64's: no letter that JSON would escape.
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
NUMBERS = {letter: number for number, letter in enumerate(LETTERS)}
PERIOD = len(LETTERS)
STEPS = 1 << 16
CELL = struct.Struct("d")


class StepClock:
    """When each step ended, in memory that processes share.

    Args:
        path: A file, made if it is not there.
    """

    def __init__(self, path: str) -> None:
        file = Path(path)
        size = CELL.size * (STEPS + 1)
        if not file.exists():
            file.write_bytes(bytes(size))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), size)

    def note(self, step: int, ends_s: float) -> None:
        """Say when a step just launched will end."""
        CELL.pack_into(self._memory, CELL.size * (1 + step % STEPS), ends_s)
        CELL.pack_into(self._memory, 0, float(step))

    @property
    def newest(self) -> int:
        """The step launched last."""
        return int(CELL.unpack_from(self._memory, 0)[0])

    def end_s(self, step: int) -> float:
        """When a step ended."""
        return CELL.unpack_from(self._memory, CELL.size * (1 + step % STEPS))[0]


class Follower:
    """Knows of each letter that a reader gets how long ago its step ended.

    Args:
        clock: The device's.
    """

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock
        self._step: int | None = None

    def see(self, letters: Iterable[int], now_s: float) -> list[float]:
        """Seconds from the end of each letter's step until now."""
        delays: list[float] = []
        for letter in letters:
            number = NUMBERS[letter]
            if self._step is None:
                newest = self._clock.newest
                self._step = newest - (newest - number) % PERIOD
            else:
                self._step += (number - self._step - 1) % PERIOD + 1
            if self._step > self._clock.newest:
                # At first it was further behind than a letter can tell.
                self._step -= PERIOD
            delays.append(now_s - self._clock.end_s(self._step))
        return delays


class PacedStep:
    """A step under way.

    Args:
        result: Due at its finish.
    """

    def __init__(self, result: StepResult) -> None:
        self._result = result

    def wait(self) -> StepResult:
        """Sleep until the step is done."""
        rest_s = self._result.finished_s - time.perf_counter()
        if rest_s > 0:
            time.sleep(rest_s)
        return self._result


class PacedDevice:
    """A runner that only keeps time.

    Args:
        limits: What it pretends to hold.
        step_s: Seconds a step takes.
        clock: The file of the shared clock.
    """

    launch_depth = 2
    memory_report = "no memory: a paced device"

    def __init__(self, limits: RunnerLimits, step_s: float, clock: str) -> None:
        self.limits = limits
        self._step_s = step_s
        self._clock = StepClock(clock)
        self._free_at_s = 0.0

    def equip(self, grammars: Grammars) -> None:
        """Have no use for grammars."""

    def launch(self, plan: StepPlan) -> PacedStep:
        """Sample the step's letter for each row that samples."""
        started_s = max(time.perf_counter(), self._free_at_s)
        ends_s = self._free_at_s = started_s + self._step_s
        self._clock.note(plan.step, ends_s)
        letter = LETTERS[plan.step % PERIOD]
        count = len(plan.decodes) + sum(row.samples for row in plan.rows)
        return PacedStep(StepResult(plan.step, (letter,) * count, started_s, ends_s))

    def close(self) -> None:
        """Nothing to free."""
