"""Steps in flight and the fence around them."""

import pytest

from legato.protocol.requests import Cancel
from legato.protocol.steps import RunnerLimits, StepResult


def test_a_result_out_of_order_is_refused(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3)
    drive.plan()
    with pytest.raises(ValueError, match="step 7, expected 0"):
        drive.planner.commit(StepResult(7, ()), 0.0)


def test_a_page_is_not_reused_while_a_step_in_flight_may_touch_it(new_drive):
    limits = RunnerLimits(
        num_slots=2,
        num_pages=2,
        page_size=4,
        max_context=8,
        max_step_tokens=8,
        vocab_size=64,
        page_bytes=0,
    )
    drive = new_drive(limits, prefix_cache=False)
    drive.admit(0, 5, 3)
    drive.plan()
    drive.planner.cancel(Cancel(0), 0.0)
    drive.admit(1, 5, 3)
    assert drive.plan() is None
    drive.commit()
    assert drive.plan() is not None


def test_a_result_with_too_few_tokens_is_refused(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3)
    drive.plan()
    with pytest.raises(ValueError, match="step 0 brought 0 tokens, not 1"):
        drive.planner.commit(StepResult(0, ()), 0.0)


def test_depth_bounds_the_steps_in_flight(new_drive):
    drive = new_drive(depth=3)
    drive.admit(0, 3, 9)
    assert [drive.plan() is not None for _ in range(4)] == [True, True, True, False]
    drive.finish()
    assert drive.tokens[0] == drive.truth(0)


def test_fenced_pages_are_counted_as_used(new_drive):
    drive = new_drive(prefix_cache=False)
    drive.admit(0, 9, 9)
    drive.plan()
    drive.planner.cancel(Cancel(0), 0.0)
    stats = drive.planner.stats(0.0)
    assert (stats.pages_used, stats.pages_fenced) == (3, 3)
    drive.commit()
    assert drive.planner.stats(0.0).pages_used == 0


def test_a_landed_step_lets_go_of_its_sequences(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3)
    drive.plan()
    flight = drive.planner._ledger._flights[0]
    assert len(flight.sequences) == len(flight.rows) == 1
    drive.commit()
    assert flight.landed
    assert (flight.sequences, flight.rows) == ([], [])
