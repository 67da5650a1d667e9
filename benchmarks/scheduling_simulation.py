"""A planner between a trace and a modelled device, on a clock that jumps.

Keeps counts and compact columns of numbers, so that its memory grows by 4 bytes a
request and nothing else.
"""

import time
from array import array
from collections import defaultdict, deque

from arrivals import Arrival, Trace
from scheduling_device import ModelledDevice

from legato.actors.scheduling import Planner
from legato.protocol.errors import Overloaded
from legato.protocol.requests import Cancel, Credit, Emitted, StepOutput
from legato.protocol.steps import StepResult

PAUSE_S = 8.0
SAMPLED_EVERY = 64
"""Steps between two readings of the planner's counters."""


class Mean:
    """The mean of what it is told."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float) -> None:
        """Count a value."""
        self._sum += value
        self._count += 1

    @property
    def value(self) -> float:
        """The mean; 0 of nothing."""
        return self._sum / self._count if self._count else 0.0


def _column() -> "array[float]":
    return array("f")


class Simulation:
    """The planner between a trace and a device of two steps' depth."""

    def __init__(self, trace: Trace, planner: Planner, device: ModelledDevice) -> None:
        self.trace, self.planner, self.device = trace, planner, device
        self.now_s = 0.0
        self.busy_s = 0.0
        self.free_at_s = 0.0
        self.flying: deque[tuple[float, StepResult]] = deque()
        self.open: dict[int, Arrival] = {}
        self.answers: dict[int, list[int]] = {}
        self.resumes: deque[tuple[float, int]] = deque()
        self.waits: defaultdict[int, array[float]] = defaultdict(_column)
        self.refused = 0
        self.fragmentation = Mean()
        self.pool_use = Mean()
        self.host_s = 0.0
        self.steps = 0

    def run(self) -> None:
        """Serve every request of the trace."""
        arrivals = iter(self.trace)
        coming = next(arrivals, None)
        while coming is not None or self.planner.num_live or self.flying:
            self._launch()
            times = [self.flying[0][0]] if self.flying else []
            times += [coming.at_s] if coming is not None else []
            times += [self.resumes[0][0]] if self.resumes else []
            self.now_s = max(self.now_s, min(times))
            while self.resumes and self.resumes[0][0] <= self.now_s:
                _, request = self.resumes.popleft()
                self.planner.credit(Credit(request, True), self.now_s)
            while coming is not None and coming.at_s <= self.now_s:
                self._admit(coming)
                coming = next(arrivals, None)
            if self.flying and self.flying[0][0] <= self.now_s:
                self._land()

    def _launch(self) -> None:
        begun_s = time.process_time()
        plan = self.planner.plan(self.now_s)
        self.host_s += time.process_time() - begun_s
        if plan is None:
            return
        self.steps += 1
        result = self.device.run(plan, max(self.now_s, self.free_at_s))
        self.free_at_s = result.finished_s
        self.busy_s += result.finished_s - result.started_s
        self.flying.append((self.free_at_s, result))
        if self.planner.num_in_flight < 2:
            self._launch()

    def _land(self) -> None:
        _, result = self.flying.popleft()
        begun_s = time.process_time()
        output = self.planner.commit(result, self.now_s)
        self.host_s += time.process_time() - begun_s
        self._read(output)
        if result.step % SAMPLED_EVERY == 0:
            stats = self.planner.stats(self.now_s)
            total = stats.pages_free + stats.pages_cached + stats.pages_used
            assert total == stats.pages_total, "pages are lost"
            self.fragmentation.add(stats.fragmentation)
            self.pool_use.add(stats.pages_used / stats.pages_total)

    def _admit(self, arrival: Arrival) -> None:
        try:
            self.planner.admit(arrival.admit, self.now_s)
        except Overloaded:
            self.refused += 1
            return
        self.open[arrival.request] = arrival
        self.answers[arrival.request] = []

    def _read(self, output: StepOutput) -> None:
        answers = self.answers
        for emitted in output.emitted:
            answer = answers[emitted.request]
            answer.append(emitted.token)
            if len(answer) == 1:
                self._first(emitted)
        for ended in output.ended:
            arrival = self.open.pop(ended.request)
            answer = answers.pop(ended.request)
            self.trace.answered.append((*arrival.admit.prompt, *answer))

    def _first(self, emitted: Emitted) -> None:
        arrival = self.open[emitted.request]
        self.waits[arrival.admit.priority].append(self.now_s - arrival.at_s)
        if arrival.leaves:
            self.planner.cancel(Cancel(emitted.request), self.now_s)
        elif arrival.pauses:
            self.planner.credit(Credit(emitted.request, False), self.now_s)
            self.resumes.append((self.now_s + PAUSE_S, emitted.request))
