"""Who gets a slot, and when."""

import msgspec

from legato.actors.scheduling import Continuous, Dynamic, Static


def opened(drive) -> list[int]:
    return [len(plan.opens) for plan in drive.plans]


def test_a_batch_runs_to_its_end_before_the_next_starts(new_drive):
    drive = new_drive(batching=Dynamic(max_batch=2, max_delay_s=0.0))
    for request in range(4):
        drive.admit(request, 2, 3 + request)
    drive.finish()
    assert [count for count in opened(drive) if count] == [2, 2]
    assert list(drive.ended) == [0, 1, 2, 3]


def test_the_planner_says_when_a_batch_will_start(new_drive):
    drive = new_drive(batching=Static(size=4, max_wait_s=2.0))
    drive.admit(0, 3, 2)
    assert drive.plan() is None
    assert drive.planner.wake_at(0.0) == 2.0
    assert not drive.planner.has_work
    drive.now_s = 2.0
    assert drive.plan() is not None
    drive.finish()
    assert drive.tokens[0] == drive.truth(0)


def test_a_static_batch_takes_all_its_pages_at_the_start(new_drive):
    drive = new_drive(batching=Static(size=2))
    for request in range(2):
        drive.admit(request, 3, 18)
    plan = drive.plan()
    assert [len(opened.pages) for opened in plan.opens] == [5, 5]
    drive.finish()
    assert all(not row.pages for plan in drive.plans for row in plan.rows)
    assert drive.tokens[1] == drive.truth(1)


def test_a_static_batch_copies_a_cached_tail_to_the_right_page(new_drive):
    drive = new_drive(batching=Static(size=1))
    drive.admit(0, (*range(10),), 3)
    drive.finish()
    drive.admit(1, (*range(9), 50), 18)
    plan = drive.plan()
    assert plan.copies[0][1] == plan.opens[0].pages[2]
    drive.finish()
    assert drive.tokens[1] == drive.truth(1)


def test_a_change_of_strategy_touches_nothing_that_runs(new_drive):
    drive = new_drive(batching=Static(size=2, max_wait_s=60.0))
    for request in range(3):
        drive.admit(request, 3, 20)
    for _ in range(4):
        drive.step()
    drive.planner.set_batching(Continuous(), drive.now_s)
    drive.step()
    assert drive.planner.stats(0.0).running == 3
    assert drive.planner.stats(0.0).strategy == "continuous"
    drive.finish()
    assert drive.planner.stats(0.0).preemptions == 0
    for request in range(3):
        assert drive.tokens[request] == drive.truth(request)


def test_one_that_does_not_fit_is_not_passed_by_smaller_ones(new_drive):
    limits = msgspec.structs.replace(new_drive().limits, num_pages=20)
    drive = new_drive(limits)
    drive.admit(0, 30, 30)
    for _ in range(4):
        drive.step()
    large = drive.admit(1, 60, 4)
    drive.step(step_s=20.0)
    for request in range(2, 6):
        drive.admit(request, 20, 30)
    drive.finish()
    assert list(drive.ended)[:2] == [0, large.request]


def test_a_request_that_lost_its_slot_goes_before_new_ones(new_drive):
    drive = new_drive()
    for request in range(4):
        drive.admit(request, 3, 9)
    drive.step()
    for request in range(4, 8):
        drive.admit(request, 3, 9)
    drive.planner.lose_device(drive.now_s)
    drive.device, drive.results = type(drive.device)(drive.limits), []
    drive.finish()
    assert set(list(drive.ended)[:4]) == {0, 1, 2, 3}
