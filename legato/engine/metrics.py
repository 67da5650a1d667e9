"""The engine's metrics, as Prometheus text and as percentiles of late.

Histograms are fed as things happen; gauges and counters are read from the core's last
report when somebody asks. Names follow vLLM's where a counterpart exists.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..protocol.requests import FinishReason, Usage
from .stats import EngineStats

LATE = 2048
RATE_WINDOW_S = 10.0
TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ITL_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
TOTAL_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

GAUGES = (
    ("num_requests_running", "Sequences with a slot.", "running"),
    ("num_requests_waiting", "Sequences waiting for a slot.", "waiting"),
    ("num_requests_paused", "Sequences whose reader lags.", "paused"),
    ("kv_cache_pages_free", "Pages that hold nothing.", "pages_free"),
    ("kv_cache_pages_cached", "Pages of the prefix cache alone.", "pages_cached"),
    ("kv_cache_pages_used", "Pages held by sequences.", "pages_used"),
    ("bubble_share", "Share of device time lost to bubbles.", "bubble_share"),
)
COUNTERS = (
    ("num_preemptions", "Sequences that lost their slot.", "preemptions"),
    ("prompt_tokens", "Tokens of admitted prompts.", "prompt_tokens"),
    ("prefix_cache_hits", "Prompt tokens found in the cache.", "cached_tokens"),
    ("generation_tokens", "Tokens emitted.", "output_tokens"),
    ("steps", "Steps of the device.", "steps"),
    ("device_busy_seconds", "Time the device spent in steps.", "busy_s"),
    ("device_idle_seconds", "Bubbles between steps.", "idle_s"),
    ("planning_seconds", "Host time spent planning.", "plan_s"),
    ("device_restarts", "Devices rebuilt after a failure.", "restarts"),
)


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
        self._registry = CollectorRegistry()
        self._ttft = self._histogram("time_to_first_token", TTFT_BUCKETS_S)
        self._itl = self._histogram("inter_token_latency", ITL_BUCKETS_S)
        self._total = self._histogram("e2e_request_latency", TOTAL_BUCKETS_S)
        self._ended = Counter(
            "legato_request_success",
            "Ended requests, by reason.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        self._registry.register(self)
        self._ttfts_s: deque[float] = deque(maxlen=LATE)
        self._itls_s: deque[float] = deque(maxlen=LATE)
        self._tokens_at_s: deque[float] = deque(maxlen=LATE)

    def _histogram(self, name: str, buckets_s: Sequence[float]) -> Histogram:
        return Histogram(
            f"legato_{name}_seconds",
            f"{name.replace('_', ' ').capitalize()}.",
            ["model_name"],
            buckets=buckets_s,
            registry=self._registry,
        ).labels(self._model)

    def first_token(self, ttft_s: float) -> None:
        """Count a request's first token."""
        self._ttft.observe(ttft_s)
        self._ttfts_s.append(ttft_s)
        self._tokens_at_s.append(time.perf_counter())

    def token_gap(self, itl_s: float) -> None:
        """Count a later token."""
        self._itl.observe(itl_s)
        self._itls_s.append(itl_s)
        self._tokens_at_s.append(time.perf_counter())

    def ended(self, reason: FinishReason, usage: Usage, total_s: float) -> None:
        """Count an ended request."""
        self._total.observe(total_s)
        self._ended.labels(self._model, reason.value).inc()
        self._note_end(time.perf_counter())

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)

    def ttft_ms_p50(self) -> float:
        """Median time to first token of late, in milliseconds."""
        return 1e3 * percentile(self._ttfts_s, 0.5)

    def itl_ms(self, share: float) -> float:
        """A percentile of the time between tokens of late, in milliseconds."""
        return 1e3 * percentile(self._itls_s, share)

    def tokens_per_s(self) -> float:
        """Output tokens a second over the last seconds."""
        since_s = time.perf_counter() - RATE_WINDOW_S
        late = [at_s for at_s in self._tokens_at_s if at_s >= since_s]
        if len(late) < 2:
            return 0.0
        return (len(late) - 1) / max(1e-9, late[-1] - late[0])

    def collect(self) -> Iterable[Metric]:
        """Read gauges and counters from the core's last report."""
        stats = self._snapshot()
        for name, text, field in GAUGES:
            gauge = GaugeMetricFamily(f"legato_{name}", text, labels=["model_name"])
            gauge.add_metric([self._model], getattr(stats.core, field))
            yield gauge
        for name, text, field in COUNTERS:
            counter = CounterMetricFamily(f"legato_{name}", text, labels=["model_name"])
            counter.add_metric([self._model], getattr(stats.core, field))
            yield counter
        depth = GaugeMetricFamily(
            "legato_mailbox_depth",
            "Messages waiting.",
            labels=["model_name", "mailbox"],
        )
        for mailbox in stats.mailboxes:
            depth.add_metric([self._model, mailbox.name], mailbox.depth)
        yield depth


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which a share of all lie, by nearest rank; 0 of nothing."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
