"""Counting durations, and reading percentiles off."""

import pytest

from legato.actors.histogram import Histogram
from legato.protocol.histogram import BOUNDS_S, HistogramReading


def test_the_buckets_hold_the_usual_bounds_exactly():
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    for bound in (1e-5, 0.001, 0.0025, 0.005, 0.01, 0.25, 1, 2.5, 10, 500):
        assert bound in BOUNDS_S


def test_a_percentile_is_read_within_an_eighth():
    histogram = Histogram()
    for micros in range(1, 10_001):
        histogram.observe(micros / 1e6)
    reading = histogram.read()
    assert reading.count == 10_000
    assert reading.mean_s == pytest.approx(0.0050005)
    for share in (0.1, 0.5, 0.9, 0.99):
        assert reading.quantile(share) == pytest.approx(share / 100, rel=0.125)


def test_a_duration_can_be_counted_many_times_at_once():
    histogram = Histogram()
    histogram.observe(0.004, times=5)
    histogram.observe(0.004)
    reading = histogram.read()
    assert reading.count == 6
    assert reading.total_s == pytest.approx(0.024)


def test_a_duration_beyond_all_buckets_reads_as_the_last_bound():
    histogram = Histogram()
    histogram.observe(1e9)
    assert histogram.read().quantile(0.5) == BOUNDS_S[-1]


def test_nothing_has_no_percentile_and_no_mean():
    for reading in (HistogramReading(), Histogram().read()):
        assert (reading.count, reading.quantile(0.5), reading.mean_s) == (0, 0, 0)


def test_a_reading_since_another_holds_what_came_between():
    histogram = Histogram()
    histogram.observe(0.1)
    before = histogram.read()
    histogram.observe(0.002)
    late = histogram.read().since(before)
    assert late.count == 1
    assert late.quantile(0.5) == pytest.approx(0.002, rel=0.125)
    assert histogram.read().since(HistogramReading()).count == 2


def test_a_histogram_that_began_anew_is_read_from_its_beginning():
    old, new = Histogram(), Histogram()
    old.observe(0.1)
    new.observe(0.2)
    assert new.read().since(old.read()) == new.read()
