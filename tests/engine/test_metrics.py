"""Metrics: what is fed comes out, under the names that dashboards know."""

import re

import pytest

from legato.actors.stages import Stages
from legato.engine.exposition import STAGES, STREAMS, buckets
from legato.engine.metrics import EngineMetrics
from legato.engine.stats import EngineStats
from legato.mailbox import MailboxStats
from legato.protocol.core import CoreStats
from legato.protocol.histogram import NUM_BUCKETS, HistogramReading
from legato.protocol.requests import FinishReason, Usage

MODEL = 'model_name="fake"'
BOX = MailboxStats("detokenizer", 3, 64, 9, 100, 97, 1, 2, 0.5, 0)


@pytest.fixture
def ends() -> list[float]:
    return []


@pytest.fixture
def metrics(ends: list[float]) -> EngineMetrics:
    core = CoreStats(pages_total=8, pages_used=2, steps=7, busy_s=3, idle_s=1)
    stats = EngineStats(
        state="ready", model="fake", open_streams=1, core=core, mailboxes=(BOX,)
    )
    return EngineMetrics("fake", lambda: stats, ends.append)


def value(metrics: EngineMetrics, series: str) -> float:
    name, brace, labels = series.partition("{")
    given = [labels.removesuffix("}")] if brace else []
    line = f"legato_{name}{{{','.join(sorted([MODEL, *given]))}}}"
    found = re.search(rf"^{re.escape(line)} (\S+)$", metrics.text().decode(), re.M)
    assert found, line
    return float(found[1])


def test_every_stage_and_delay_is_a_histogram_in_seconds(metrics: EngineMetrics):
    text = metrics.text().decode()
    for name in (*STAGES, *STREAMS, "step_time", "step_bubble", "loop_lag"):
        assert f"# TYPE legato_{name}_seconds histogram" in text
    assert 'loop="frontend"' in text
    assert 'loop="core"' in text


def test_the_names_that_other_engines_have_too_are_the_same(metrics: EngineMetrics):
    text = metrics.text().decode()
    for name in (
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "request_inference_time_seconds",
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "prompt_tokens_total",
        "generation_tokens_total",
        "request_success_total",
    ):
        assert f"legato_{name}" in text


def test_an_ended_request_counts_in_every_stage_it_went_through(
    metrics: EngineMetrics, ends: list[float]
):
    stages = Stages(1.0, 1.5, 2.0, 2.25, 3.0, 5.0, 9.0)
    metrics.ended(FinishReason.LENGTH, Usage(3, 4), stages)
    assert ends == [9.0]
    for name, seconds in stages.durations().items():
        assert value(metrics, f"{name}_seconds_count") == 1
        assert value(metrics, f"{name}_seconds_sum") == seconds
    assert value(metrics, 'request_success_total{finished_reason="length"}') == 1
    late = {stage.name: stage for stage in metrics.stage_times()}
    assert late["request_decode_time"].count == 1
    assert late["request_decode_time"].p50_ms == pytest.approx(4000, rel=0.13)


def test_merged_tokens_count_one_by_one(metrics: EngineMetrics):
    metrics.first_token(0.02)
    metrics.token_gap(0.005, 8)
    assert value(metrics, "time_to_first_token_seconds_count") == 1
    assert value(metrics, "inter_token_latency_seconds_count") == 8
    assert value(metrics, 'inter_token_latency_seconds_bucket{le="0.005"}') == 8
    assert metrics.itl_ms(0.5) == pytest.approx(5, rel=0.13)
    assert metrics.ttft_ms_p50() == pytest.approx(20, rel=0.13)
    assert metrics.tokens_per_s() > 0


def test_the_core_and_the_mailboxes_are_read_when_asked(metrics: EngineMetrics):
    assert value(metrics, "bubble_share") == 0.25
    assert value(metrics, "kv_cache_usage_perc") == 0.25
    assert value(metrics, "steps_total") == 7
    assert value(metrics, 'mailbox_depth{mailbox="detokenizer"}') == 3
    assert value(metrics, 'mailbox_wait_seconds_total{mailbox="detokenizer"}') == 0.5
    assert value(metrics, 'mailbox_coalesced_total{mailbox="detokenizer"}') == 2


def test_what_is_long_ago_is_not_of_late(metrics: EngineMetrics):
    metrics.token_gap(0.1, 50)
    now_s = 1e9
    metrics.advance(now_s)
    assert metrics.itl_ms(0.5) == pytest.approx(100, rel=0.13)
    metrics.advance(now_s + 1)
    metrics.token_gap(0.001, 50)
    metrics.advance(now_s + 6)
    assert metrics.itl_ms(0.5) == pytest.approx(1, rel=0.13)


def test_exported_buckets_are_cumulative_and_end_at_infinity():
    counts = tuple(int(bucket % 10 == 0) for bucket in range(NUM_BUCKETS))
    found = buckets(HistogramReading(counts, 1.0))
    assert found[0] == ("1e-05", 1)
    assert found[-1] == ("+Inf", sum(counts))
    values = [count for _, count in found]
    assert values == sorted(values)
    assert [bound for bound, _ in buckets(HistogramReading())] == [b for b, _ in found]
