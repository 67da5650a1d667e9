"""A step that was launched, until the host has read what it brought."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...protocol.steps import StepResult, TokenLogprobs
from ..readback import integers, reals
from ..sampling import Scoring
from ..sampling.sampler import fault_of
from .clock import DeviceClock
from .device import Mark


@dataclass(frozen=True)
class Expected:
    """A row that samples, as the host knows it.

    Args:
        logprobs: Likeliest tokens to report; below 0 nothing.
        fault: Why its token means nothing whatever it is; "" otherwise.
    """

    logprobs: int = -1
    fault: str = ""


PLAIN = Expected()


@dataclass(frozen=True)
class Marks:
    """When a step did what.

    Args:
        launched_s: When the host began with it.
        started: Before its forward pass.
        ended: Behind its last.
        read: Behind the copies of its results.
    """

    launched_s: float
    started: Mark
    ended: Mark
    read: Mark


class LaunchedStep:
    """A step in flight. Any thread may wait for it.

    Args:
        step: The plan's number.
        expected: One for each row that samples.
        outcomes: [rows, 2] on the host, filled when ``read`` is reached.
        reports: [rows, ...] likewise.
        marks: Its marks.
        before: The step before it, if that one may still be in flight.
        clock: Places it in time.
        scoring: Has scored tokens of prompts by the time ``ended`` is reached, or None.
    """

    def __init__(
        self,
        step: int,
        expected: Sequence[Expected],
        outcomes: torch.Tensor,
        reports: torch.Tensor,
        marks: Marks,
        before: "LaunchedStep | None",
        clock: DeviceClock,
        scoring: Scoring | None = None,
    ) -> None:
        self._step = step
        self._scoring = scoring
        self._expected = expected
        self._outcomes = outcomes
        self._reports = reports
        self._marks = marks
        self._before = before
        self._clock = clock
        self._lock = threading.Lock()
        self._result: StepResult | None = None

    @property
    def is_read(self) -> bool:
        """Whether somebody waited for it."""
        return self._result is not None

    def wait(self) -> StepResult:
        """Block, without polling, until the step is done and read.

        Raises:
            Exception: Whatever the device failed with.
        """
        with self._lock:
            if self._result is None:
                self._marks.read.wait()
                # The clock places steps in their order.
                if self._before is not None:
                    self._before.wait()
                    self._before = None
                self._result = self._read()
            return self._result

    def _read(self) -> StepResult:
        marks = self._marks
        started_s, finished_s = self._clock.place(
            marks.started, marks.ended, marks.launched_s
        )
        tokens, peaks = self._outcomes.numpy().T
        odd = [(n, row) for n, row in enumerate(self._expected) if row is not PLAIN]
        faults = {place: row.fault for place, row in odd if row.fault}
        for place in np.flatnonzero(~np.isfinite(peaks)).tolist():
            faults.setdefault(place, fault_of(float(peaks[place])))
        logprobs = {
            place: self._report(place, row.logprobs)
            for place, row in odd
            if row.logprobs >= 0 and place not in faults
        }
        chosen = tuple(tokens.astype(np.int64).tolist())
        scores = {} if self._scoring is None else self._scoring.scores()
        times = started_s, finished_s
        return StepResult(self._step, chosen, *times, logprobs, faults, scores)

    def _report(self, place: int, count: int) -> TokenLogprobs:
        row = self._reports[place]
        most = (len(row) - 1) // 2
        values, ids = row[1 : 1 + most], row[1 + most :]
        count = min(count, most)
        return TokenLogprobs(
            float(row[0]),
            tuple(integers(ids[:count].long())),
            tuple(reals(values[:count])),
        )
