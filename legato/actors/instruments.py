"""The core's instruments: what the scheduler tells of every step, and of itself.

Owned by the scheduler, used in the core's loop alone. Measuring is always on, since it
costs a few additions a step; recording a trace is off until somebody asks.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ..protocol.core import CoreStats
from ..protocol.requests import StepOutput
from ..protocol.steps import StepResult
from ..protocol.tracing import StartTrace, StopTrace, TracePart
from .gauge import DeviceGauge
from .histogram import Histogram
from .lag import LoopLag
from .scheduling.stats import PlannerStats
from .tracing import Recorder, Tracer, sample


class Instruments:
    """Gauge, lag and trace of one core."""

    def __init__(self) -> None:
        self.gauge = DeviceGauge()
        self.lag = LoopLag()
        self._result_waits = Histogram()
        self._tracer = Tracer()
        self._recorder = Recorder(self._tracer)

    def note_turn(self, events: Sequence[object]) -> None:
        """Say what was just taken from the inbox."""
        now_s = time.perf_counter()
        for event in events:
            if isinstance(event, StepResult):
                self._result_waits.observe(max(0.0, now_s - event.finished_s))
        if self._tracer.on:
            self._tracer.count("scheduler", now_s, len(events))
            self._tracer.count("scheduler", now_s, 0)

    def note_admission(self, request: int, began_s: float) -> None:
        """Say that a request was taken in, or refused."""
        if self._tracer.on:
            ended_s = time.perf_counter()
            self._tracer.span(
                "scheduler", "admit", began_s, ended_s, requests=(request,)
            )

    def note_plan(self, num_in_flight: int) -> None:
        """Say that a plan was posted."""
        now_s = time.perf_counter()
        self.gauge.note_plan(now_s)
        if self._tracer.on:
            self._tracer.count("executor", now_s, num_in_flight - 1)

    def note_step(
        self, result: StepResult, output: StepOutput, num_in_flight: int
    ) -> None:
        """Say that a step's result was applied."""
        self.gauge.note_step(result.started_s, result.finished_s)
        if self._tracer.on:
            self._tracer.span(
                "device",
                "step",
                result.started_s,
                result.finished_s,
                len(output.tokens),
                sample(result.step, output.requests),
            )
            left = max(0, num_in_flight - 1)
            self._tracer.count("executor", result.finished_s, left)

    @contextmanager
    def planning(self, what: str) -> Generator[None]:
        """Count the time inside as planning."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            ended_s = time.perf_counter()
            self.gauge.note_planning(ended_s - began_s)
            if self._tracer.on:
                self._tracer.span("scheduler", what, began_s, ended_s)

    def obey(self, order: StartTrace | StopTrace) -> None:
        """Start or stop recording."""
        self._recorder.obey(order)

    def take_trace(self, *, now: bool) -> TracePart | None:
        """Return what of the trace is to be reported; see ``Recorder.take``."""
        return self._recorder.take(now=now)

    def snapshot(self, planner: PlannerStats, num_restarts: int) -> CoreStats:
        """Everything at one moment."""
        gauge = self.gauge
        return CoreStats(
            running=planner.running,
            waiting=planner.waiting + planner.resuming,
            paused=planner.paused,
            live=planner.admitted - planner.ended,
            pages_total=planner.pages_total,
            pages_free=planner.pages_free,
            pages_cached=planner.pages_cached,
            pages_used=planner.pages_used,
            pages_peak=planner.pages_peak,
            preemptions=planner.preemptions,
            prompt_tokens=planner.prompt_tokens,
            cached_tokens=planner.prefix_hit_tokens,
            output_tokens=planner.emitted_tokens,
            steps=gauge.steps,
            in_flight=planner.steps_in_flight,
            busy_s=gauge.busy_s,
            idle_s=gauge.idle_s,
            plan_s=gauge.plan_s,
            restarts=num_restarts,
            strategy=planner.strategy,
            strategy_why=planner.strategy_reason,
            step_times=gauge.step_times.read(),
            bubbles=gauge.bubbles.read(),
            plan_times=gauge.plan_times.read(),
            result_waits=self._result_waits.read(),
            loop_lags=self.lag.histogram.read(),
        )
