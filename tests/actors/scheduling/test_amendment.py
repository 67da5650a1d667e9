"""Changing requests under way, on a fake device."""

import pytest

from legato.protocol.amend import Amend
from legato.protocol.requests import Credit, FinishReason


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("most", [1, 3, 6, 20, 1000])
def test_a_limit_changes_at_any_step_and_the_text_is_a_prefix(new_drive, steps, most):
    drive = new_drive()
    drive.admit(0, 3, 40)
    for _ in range(steps):
        drive.step()
    drive.planner.amend(Amend(0, max_tokens=most))
    drive.finish()
    count = len(drive.tokens.get(0, ()))
    longest = min(most, drive.limits.max_context - 3)
    assert drive.ended[0].reason is FinishReason.LENGTH
    assert count == longest or longest < count <= steps
    whole = drive.admits[0]
    drive.admits[0] = type(whole)(0, whole.prompt, max(count, 1), whole.sampling)
    assert drive.tokens.get(0, []) == drive.truth(0)[:count]
    stats = drive.planner.stats(0.0)
    assert stats.pages_used == 0


def test_a_limit_is_raised_after_the_last_row_was_dispatched(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 2)
    drive.plan()
    drive.plan()
    drive.planner.amend(Amend(0, max_tokens=9))
    drive.finish()
    assert len(drive.tokens[0]) == 9


def test_a_limit_on_a_paused_or_preempted_request_ends_it_or_waits(new_drive):
    drive = new_drive()
    for number in range(6):
        drive.admit(number, 8, 30)
    for _ in range(6):
        drive.step()
    drive.planner.credit(Credit(1, False), drive.now_s)
    for number in range(6):
        drive.planner.amend(Amend(number, max_tokens=4 + number))
    drive.planner.credit(Credit(1, True), drive.now_s)
    drive.finish()
    assert sorted(drive.ended) == list(range(6))
    for number in range(6):
        assert len(drive.tokens[number]) <= 7 + number


def test_a_better_priority_starts_earlier(new_drive):
    drive = new_drive()
    for number in range(8):
        drive.admit(number, 4, 12)
    drive.planner.amend(Amend(7, priority=-5))
    drive.planner.amend(Amend(99, priority=-5))
    drive.finish()
    order = list(drive.ended)
    assert order.index(7) < order.index(4)
    assert all(drive.tokens[n] == drive.truth(n) for n in range(8))
