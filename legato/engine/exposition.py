"""The engine's metrics as Prometheus text. Names follow vLLM's where there are any."""

from collections.abc import Iterable, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ..protocol.histogram import BOUNDS_S, PREFERRED, HistogramReading
from .stats import EngineStats

GAUGES = (
    ("num_requests_running", "Sequences with a slot.", "running"),
    ("num_requests_waiting", "Sequences waiting for a slot.", "waiting"),
    ("num_requests_paused", "Sequences whose reader lags.", "paused"),
    ("kv_cache_pages_free", "Pages that hold nothing.", "pages_free"),
    ("kv_cache_pages_cached", "Pages of the prefix cache alone.", "pages_cached"),
    ("kv_cache_pages_used", "Pages held by sequences.", "pages_used"),
    ("kv_cache_pages_peak", "The most that were ever held at once.", "pages_peak"),
    ("kv_cache_usage_perc", "Share of the pages held by sequences.", "kv_usage"),
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
STAGES = {
    "request_tokenize_queue_time": "From the door to the tokenizer.",
    "request_tokenize_time": "Rendering and encoding the prompt.",
    "request_admit_time": "From the tokenizer to the scheduler.",
    "request_queue_time": "Waiting for a slot.",
    "request_prefill_time": "From the slot to the first token.",
    "request_decode_time": "From the first token to the end.",
    "request_inference_time": "From the slot to the end.",
    "e2e_request_latency": "From the door to the end.",
}
STREAMS = {
    "time_to_first_token": "From the door to the first token.",
    "inter_token_latency": "Between two tokens of a request.",
    "step_delivery_time": "From a step's end to its output in the streams.",
}
STEPS = (
    ("step_time", "A step of the device.", "step_times"),
    ("step_bubble", "Idle device before a step that could have run.", "bubbles"),
    ("step_planning_time", "Host time to plan a step, or to apply it.", "plan_times"),
    ("step_result_wait", "From a step's end to the scheduler.", "result_waits"),
)
MAILBOX_GAUGES = (
    ("mailbox_depth", "Messages waiting.", "depth"),
    ("mailbox_capacity", "Most messages that may wait.", "capacity"),
    ("mailbox_high_water", "Most messages that ever waited.", "high_water"),
)
MAILBOX_COUNTERS = (
    ("mailbox_messages", "Messages taken.", "got"),
    ("mailbox_rejected", "Messages refused, the mailbox being full.", "rejected"),
    ("mailbox_coalesced", "Messages merged into one that waited.", "coalesced"),
    ("mailbox_wait_seconds", "Time messages waited, summed.", "waited_s"),
)

# Of the ten bounds a decade, the export has three.
EXPORTED = (1, 2.5, 5)


def expose(
    model: str,
    readings: Mapping[str, HistogramReading],
    lag: HistogramReading,
    ended: Mapping[str, int],
    stats: EngineStats,
) -> bytes:
    """Write everything as Prometheus text.

    Args:
        model: The label every metric carries.
        readings: By the names in ``STAGES`` and ``STREAMS``.
        lag: Of the front end's loop.
        ended: Ended requests by reason.
        stats: Of this moment.
    """
    registry = CollectorRegistry()
    registry.register(Exposition(model, readings, lag, ended, stats))
    return generate_latest(registry)


class Exposition:
    """One answer to a scrape; arguments as for ``expose``."""

    def __init__(
        self,
        model: str,
        readings: Mapping[str, HistogramReading],
        lag: HistogramReading,
        ended: Mapping[str, int],
        stats: EngineStats,
    ) -> None:
        self._model = model
        self._readings = readings
        self._lag = lag
        self._ended = ended
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """Make every metric."""
        yield from self._core()
        yield from self._histograms()
        yield from self._mailboxes()
        success = CounterMetricFamily(
            "legato_request_success",
            "Ended requests, by reason.",
            labels=["model_name", "finished_reason"],
        )
        for reason, count in self._ended.items():
            success.add_metric([self._model, reason], count)
        yield success

    def _core(self) -> Iterable[Metric]:
        core = self._stats.core
        for name, text, field in GAUGES:
            gauge = GaugeMetricFamily(f"legato_{name}", text, labels=["model_name"])
            gauge.add_metric([self._model], getattr(core, field))
            yield gauge
        for name, text, field in COUNTERS:
            counter = CounterMetricFamily(f"legato_{name}", text, labels=["model_name"])
            counter.add_metric([self._model], getattr(core, field))
            yield counter
        batching = GaugeMetricFamily(
            "legato_batching_strategy",
            "1 for the strategy in force, with the reason for it.",
            labels=["model_name", "strategy", "reason"],
        )
        batching.add_metric([self._model, core.strategy, core.strategy_why], 1)
        yield batching

    def _histograms(self) -> Iterable[Metric]:
        core = self._stats.core
        for name, text in (STAGES | STREAMS).items():
            yield self._histogram(name, text, {(): self._readings[name]})
        for name, text, field in STEPS:
            yield self._histogram(name, text, {(): getattr(core, field)})
        yield self._histogram(
            "loop_lag",
            "How late a timer of the loop fires.",
            {("frontend",): self._lag, ("core",): core.loop_lags},
            labels=("loop",),
        )

    def _histogram(
        self,
        name: str,
        text: str,
        readings: Mapping[tuple[str, ...], HistogramReading],
        labels: tuple[str, ...] = (),
    ) -> Metric:
        family = HistogramMetricFamily(
            f"legato_{name}_seconds", text, labels=["model_name", *labels]
        )
        for values, reading in readings.items():
            family.add_metric([self._model, *values], buckets(reading), reading.total_s)
        return family

    def _mailboxes(self) -> Iterable[Metric]:
        labels = ["model_name", "mailbox"]
        kinds = (
            (GaugeMetricFamily, MAILBOX_GAUGES),
            (CounterMetricFamily, MAILBOX_COUNTERS),
        )
        for kind, metrics in kinds:
            for name, text, field in metrics:
                family = kind(f"legato_{name}", text, labels=labels)
                for mailbox in self._stats.mailboxes:
                    family.add_metric(
                        [self._model, mailbox.name], getattr(mailbox, field)
                    )
                yield family


def buckets(reading: HistogramReading) -> list[tuple[str, float]]:
    """The cumulative buckets of an export, with bounds of 1, 2.5 and 5 a decade."""
    counts = reading.counts or (0,) * (len(BOUNDS_S) + 1)
    below = list(accumulate(counts))
    mantissas = PREFERRED * (len(BOUNDS_S) // len(PREFERRED))
    exported = [
        (f"{bound:g}", float(count))
        for bound, mantissa, count in zip(BOUNDS_S, mantissas, below, strict=False)
        if mantissa in EXPORTED
    ]
    return [*exported, ("+Inf", float(below[-1]))]
