"""Requests with the same prompt compute it once."""

from legato.actors.scheduling import Dynamic
from legato.protocol.requests import Cancel, Credit

PROMPT = tuple(range(30))


def prompt_rows(drive) -> int:
    rows = [row for plan in drive.plans for row in plan.rows]
    return sum(len(row.tokens) for row in rows)


def test_siblings_wait_for_the_prompt_and_copy_its_last_page(new_drive):
    drive = new_drive()
    for request in range(3):
        drive.admit(request, PROMPT, 4)
    drive.finish()
    assert prompt_rows(drive) == 30 + 1 + 1
    copies = [copy for plan in drive.plans for copy in plan.copies]
    assert len(copies) == 2
    for request in range(3):
        assert drive.tokens[request] == drive.truth(request)
        assert drive.ended[request].usage.cached_tokens == (29 if request else 0)


def test_a_cousin_waits_only_for_what_it_shares(new_drive):
    drive = new_drive(max_step_tokens=8)
    drive.admit(0, (*range(60),), 2)
    drive.plan()
    drive.admit(1, (*range(16), 60, 61), 2)
    for _ in range(6):
        drive.step()
    assert 1 in drive.tokens
    assert 0 not in drive.tokens
    drive.finish()
    assert drive.ended[1].usage.cached_tokens == 16
    assert drive.tokens[1] == drive.truth(1)


def test_followers_go_on_alone_when_their_twin_leaves(new_drive):
    for leave in ("cancel", "pause"):
        drive = new_drive()
        for request in range(3):
            drive.admit(request, PROMPT, 4)
        drive.plan()
        if leave == "cancel":
            drive.planner.cancel(Cancel(0), 0.0)
        else:
            drive.planner.credit(Credit(0, False), 0.0)
        for _ in range(12):
            drive.step()
        assert drive.tokens[1] == drive.truth(1)
        assert drive.tokens[2] == drive.truth(2)


def test_a_follower_can_leave_while_it_waits(new_drive):
    drive = new_drive()
    for request in range(3):
        drive.admit(request, PROMPT, 4)
    drive.plan()
    drive.planner.cancel(Cancel(1), 0.0)
    drive.finish()
    assert drive.tokens[2] == drive.truth(2)
    assert 1 not in drive.tokens


def test_an_urgent_request_does_not_follow_a_less_urgent_one(new_drive):
    drive = new_drive(max_step_tokens=8)
    drive.admit(0, PROMPT, 4, priority=1)
    drive.plan()
    drive.admit(1, PROMPT, 4, priority=0)
    assert len(drive.plan().opens) == 1
    drive.finish()
    assert drive.tokens[1] == drive.truth(1)


def test_without_a_cache_nobody_follows(new_drive):
    drive = new_drive(prefix_cache=False)
    for request in range(2):
        drive.admit(request, PROMPT, 4)
    drive.finish()
    assert prompt_rows(drive) == 60


def test_siblings_of_a_batch_stay_in_the_batch(new_drive):
    drive = new_drive(batching=Dynamic(max_batch=3, max_delay_s=1.0))
    for request in range(3):
        drive.admit(request, PROMPT, 4)
    drive.finish()
    assert drive.now_s < 1.0
    assert len(drive.plans) < 10
