"""What the engine core reports to the front end, beside the tokens themselves."""

import msgspec

from .errors import Failure
from .histogram import HistogramReading
from .requests import StepOutput
from .steps import RunnerLimits
from .tracing import TracePart


class CoreStats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The core at one moment; counters run from its start.

    Args:
        running: Sequences with a slot.
        waiting: Admitted, without a slot.
        paused: Without credit.
        live: Admitted and not yet ended.
        pages_total: In the pool.
        pages_free: Not holding anything.
        pages_cached: Held by the prefix cache alone.
        pages_used: Held by sequences.
        pages_peak: The most that were held by sequences at once.
        preemptions: Sequences that lost their slot to another.
        prompt_tokens: Admitted in prompts.
        cached_tokens: Of those, served from the prefix cache.
        output_tokens: Emitted.
        steps: Committed.
        in_flight: Steps under way: one runs, the others wait for it.
        busy_s: Time the device spent in steps.
        idle_s: Bubbles: time it stood still although work could run.
        plan_s: Host time spent planning and committing.
        restarts: Devices rebuilt after a failure.
        strategy: The batching strategy in force.
        strategy_why: Why it is.
        step_times: Of the device's steps.
        bubbles: Before each step; most are 0.
        plan_times: Host time of each planning and each commit.
        result_waits: From a step's end until the scheduler took its result.
        loop_lags: How late timers of the core's loop fire.
    """

    running: int = 0
    waiting: int = 0
    paused: int = 0
    live: int = 0
    pages_total: int = 0
    pages_free: int = 0
    pages_cached: int = 0
    pages_used: int = 0
    pages_peak: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    steps: int = 0
    in_flight: int = 0
    busy_s: float = 0.0
    idle_s: float = 0.0
    plan_s: float = 0.0
    restarts: int = 0
    strategy: str = ""
    strategy_why: str = ""
    step_times: HistogramReading = HistogramReading()
    bubbles: HistogramReading = HistogramReading()
    plan_times: HistogramReading = HistogramReading()
    result_waits: HistogramReading = HistogramReading()
    loop_lags: HistogramReading = HistogramReading()

    @property
    def bubble_share(self) -> float:
        """Share of the device's time lost to bubbles, 0 to 1."""
        total_s = self.busy_s + self.idle_s
        return self.idle_s / total_s if total_s else 0.0

    @property
    def kv_usage(self) -> float:
        """Share of the pages that sequences hold, 0 to 1."""
        return self.pages_used / self.pages_total if self.pages_total else 0.0


class CoreReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message from the core to the front end.

    Args:
        output: Tokens and terminal events.
        stats: A snapshot; sent now and then, and always as the core turns idle.
        limits: Set once the device is ready, and after each restart.
        memory: Beside ``limits``: how the pool was sized.
        failure: The core is dead and would die again: all is over.
        lost: The core died; another may take over.
        idle: The tokens of ``WhenIdle`` orders now answered.
        trace: Some of the trace being recorded.
    """

    output: StepOutput | None = None
    stats: CoreStats | None = None
    limits: RunnerLimits | None = None
    memory: str = ""
    failure: Failure | None = None
    lost: Failure | None = None
    idle: tuple[int, ...] = ()
    trace: TracePart | None = None

    def merge(self, later: "CoreReport") -> "CoreReport":
        """Join a later report onto this one, for a front end that lags."""
        output = later.output
        if self.output is not None:
            output = self.output.merge(later.output) if later.output else self.output
        trace = later.trace
        if self.trace is not None:
            trace = self.trace.merge(later.trace) if later.trace else self.trace
        return CoreReport(
            output=output,
            stats=later.stats or self.stats,
            limits=later.limits or self.limits,
            memory=later.memory or self.memory,
            failure=later.failure or self.failure,
            lost=later.lost or self.lost,
            idle=self.idle + later.idle,
            trace=trace,
        )


class StopCore(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the core to end: cancel what still lives, free the device, leave."""


class TellStats(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the core for its stats now: whoever answers does not hang."""


class WhenIdle(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Ask the core to say when nothing lives and no step is in flight.

    Args:
        token: Comes back in ``CoreReport.idle``, with stats of that moment.
    """

    token: int
