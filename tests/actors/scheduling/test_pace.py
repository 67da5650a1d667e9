"""Rates of the last seconds."""

import pytest

from legato.actors.scheduling.pace import MAX_RETRY_S, Pace, Rate


def test_a_steady_stream_is_measured_as_what_it_is():
    rate = Rate()
    for tenth in range(600):
        rate.add(3, tenth * 0.1)
    assert rate.per_s(60.0) == pytest.approx(30, rel=0.05)


def test_a_young_rate_counts_only_the_time_it_has_seen():
    rate = Rate()
    for tenth in range(11):
        rate.add(1, tenth * 0.1)
    assert rate.per_s(1.0) == pytest.approx(10, rel=0.2)


def test_a_rate_fades_when_nothing_comes():
    rate = Rate()
    for tenth in range(100):
        rate.add(1, tenth * 0.1)
    assert rate.per_s(40.0) < 0.1
    assert Rate().per_s(5.0) == 0.0


def test_time_to_retry_is_bounded_and_known_before_any_measure():
    pace = Pace()
    assert pace.retry_after_s(100, 0.0) == 1.0
    pace.started_tokens.add(1, 0.0)
    assert pace.retry_after_s(10**9, 1.0) == MAX_RETRY_S
