"""What the planner tells about itself."""

import pytest

from legato.protocol.requests import Credit


def test_one_reading_counts_everyone_once(new_drive):
    drive = new_drive()
    for request in range(6):
        drive.admit(request, 3, 9)
    drive.step()
    drive.planner.credit(Credit(5, False), drive.now_s)
    stats = drive.planner.stats(drive.now_s)
    assert (stats.running, stats.waiting, stats.paused) == (4, 2, 1)
    assert stats.waiting_tokens == 6
    assert (stats.slots_free, stats.slots_total) == (0, 4)
    assert stats.admitted - stats.ended == drive.planner.num_live == 6


def test_fragmentation_is_the_unused_share_of_the_pages_held(new_drive):
    drive = new_drive()
    drive.admit(0, 5, 9)
    drive.plan()
    assert drive.planner.stats(0.0).fragmentation == pytest.approx(3 / 8)


def test_totals_add_up_at_the_end(new_drive):
    drive = new_drive()
    for request in range(3):
        drive.admit(request, 3, 5)
    drive.finish()
    stats = drive.planner.stats(drive.now_s)
    assert stats.steps == len(drive.plans)
    assert stats.planned_rows == sum(len(plan.slots) for plan in drive.plans)
    assert stats.planned_tokens == sum(plan.num_tokens for plan in drive.plans)
    assert stats.emitted_tokens == 15
    assert stats.prompt_tokens == 9
    assert (stats.dropped_tokens, stats.preemptions, stats.device_losses) == (0, 0, 0)
