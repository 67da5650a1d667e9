"""The order of one line."""

from itertools import count

import pytest
from hypothesis import given, settings, strategies

from legato.actors.scheduling.order import Line
from legato.actors.scheduling.sequence import Sequence
from legato.actors.scheduling.tenants import Share
from legato.protocol.requests import Admit
from legato.protocol.steps import RowSampling


def sequence(order: int, size: int, queued_s: float) -> Sequence:
    admit = Admit(order, (0,) * size, 1, RowSampling(0.0))
    return Sequence(admit, order, queued_s, Share("t"))


def drain(line: Line, now_s: float) -> list[int]:
    orders = []
    while line.oldest is not None:
        picked = line.pick(now_s)
        line.remove(picked)
        orders.append(picked.order)
    return orders


@pytest.fixture
def line() -> Line:
    return Line(10.0, count(1))


def test_short_work_goes_before_long_work_that_came_with_it(line):
    line.add(sequence(0, 500, 0.0))
    line.add(sequence(1, 10, 0.0))
    line.add(sequence(2, 80, 0.0))
    assert drain(line, 1.0) == [1, 2, 0]


def test_equal_sizes_go_by_arrival(line):
    for order in (2, 0, 1):
        line.add(sequence(order, 10, order * 0.1))
    assert drain(line, 1.0) == [0, 1, 2]


def test_a_long_wait_outweighs_size(line):
    line.add(sequence(0, 100, 0.0))
    line.add(sequence(1, 10, 8.9))
    # Ratios 9 s / 128 and 0.1 s / 16.
    assert drain(line, 9.0) == [0, 1]


def test_after_the_patience_arrival_alone_counts(line):
    line.add(sequence(0, 4000, 0.0))
    line.add(sequence(1, 1, 1.0))
    assert line.pick(9.9).order == 1
    assert line.pick(10.0).order == 0


def test_one_that_left_is_skipped_and_may_come_back(line):
    first = sequence(0, 10, 0.0)
    line.add(first)
    line.add(sequence(1, 10, 0.0))
    line.remove(first)
    assert line.pick(1.0).order == 1
    line.add(first)
    assert drain(line, 1.0) == [0, 1]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    work=strategies.lists(
        strategies.tuples(strategies.floats(0, 3), strategies.integers(1, 5000)),
        min_size=1,
        max_size=40,
    ),
    service_s=strategies.floats(0.01, 3),
)
def test_nothing_passes_what_arrived_a_patience_before_it(work, service_s):
    patience_s = 5.0
    line = Line(patience_s, count(1))
    now_s = arrives_s = 0.0
    coming: list[Sequence] = []
    for order, (gap_s, size) in enumerate(work):
        arrives_s += gap_s
        coming.append(sequence(order, size, arrives_s))
    waiting: set[Sequence] = set()
    while coming or waiting:
        while coming and (coming[0].queued_s <= now_s or not waiting):
            now_s = max(now_s, coming[0].queued_s)
            waiting.add(coming[0])
            line.add(coming.pop(0))
        picked = line.pick(now_s)
        line.remove(picked)
        waiting.remove(picked)
        for passed in waiting:
            assert picked.queued_s - passed.queued_s <= patience_s
        now_s += service_s
