"""The engine's metrics: fed as things happen, read when somebody asks.

Lives in the front end's loop. Feeding is a bisection and two additions, since it is
done for every token; percentiles, rates and the Prometheus text are made on reading.
"""

import time
from collections import Counter
from collections.abc import Callable

from ..actors.histogram import Histogram
from ..actors.lag import LoopLag
from ..actors.stages import Stages
from ..protocol.histogram import HistogramReading
from ..protocol.requests import FinishReason, Usage
from .exposition import STAGES, expose
from .recent import Recent
from .stats import EngineStats, StageTimes


class EngineMetrics:
    """Hears of streams, and answers scrapes.

    Args:
        model: The label every metric carries.
        snapshot: Returns the engine's stats now.
        note_end: Told the time of each ending.
    """

    def __init__(
        self,
        model: str,
        snapshot: Callable[[], EngineStats],
        note_end: Callable[[float], None],
    ) -> None:
        self._model = model
        self._snapshot = snapshot
        self._note_end = note_end
        self._ttft = Histogram()
        self._itl = Histogram()
        # Called for every token of every stream: without a call in between.
        self.token_gap = self._itl.observe
        self._delivery = Histogram()
        self._stages = {name: Histogram() for name in STAGES}
        self._ended: Counter[str] = Counter()
        self.lag = LoopLag(self.advance)
        now_s = time.perf_counter()
        self._recent = {
            name: Recent(histogram, now_s)
            for name, histogram in (
                ("ttft", self._ttft),
                ("itl", self._itl),
                ("delivery", self._delivery),
                ("lag", self.lag.histogram),
                *self._stages.items(),
            )
        }

    # -- fed -------------------------------------------------------------------

    def first_token(self, ttft_s: float) -> None:
        """Count a request's first token."""
        self._ttft.observe(ttft_s)

    def delivered(self, finished_s: float) -> None:
        """Count a step's output as delivered now.

        Args:
            finished_s: The clock at the step's end.
        """
        self._delivery.observe(max(0.0, time.perf_counter() - finished_s))

    def ended(self, reason: FinishReason, usage: Usage, stages: Stages) -> None:
        """Count an ended request."""
        self._ended[reason.value] += 1
        for name, duration_s in stages.durations().items():
            self._stages[name].observe(duration_s)
        self._note_end(stages.ended_s)

    def advance(self, now_s: float) -> None:
        """Let the figures of late slide on."""
        for recent in self._recent.values():
            recent.advance(now_s)

    # -- read ------------------------------------------------------------------

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        readings = {name: fed.read() for name, fed in self._stages.items()}
        readings["time_to_first_token"] = self._ttft.read()
        readings["inter_token_latency"] = self._itl.read()
        readings["step_delivery_time"] = self._delivery.read()
        lag = self.lag.histogram.read()
        return expose(self._model, readings, lag, dict(self._ended), self._snapshot())

    def ttft_ms_p50(self) -> float:
        """Median time to first token of late, in milliseconds."""
        return 1e3 * self._late("ttft").quantile(0.5)

    def itl_ms(self, share: float) -> float:
        """A percentile of the time between tokens of late, in milliseconds."""
        return 1e3 * self._late("itl").quantile(share)

    def delivery_ms(self, share: float) -> float:
        """A percentile of the time from a step's end to its delivery of late."""
        return 1e3 * self._late("delivery").quantile(share)

    def lag_ms(self, share: float) -> float:
        """A percentile of the loop's lag of late, in milliseconds."""
        return 1e3 * self._late("lag").quantile(share)

    def tokens_per_s(self) -> float:
        """Output tokens a second over the last seconds."""
        now_s = time.perf_counter()
        return sum(self._recent[name].per_s(now_s) for name in ("ttft", "itl"))

    def stage_times(self) -> tuple[StageTimes, ...]:
        """Each stage of the requests that ended of late."""
        times: list[StageTimes] = []
        for name in STAGES:
            late = self._late(name)
            p50_ms, p99_ms = (1e3 * late.quantile(share) for share in (0.5, 0.99))
            times.append(StageTimes(name, late.count, p50_ms, p99_ms))
        return tuple(times)

    def _late(self, name: str) -> HistogramReading:
        return self._recent[name].read()
