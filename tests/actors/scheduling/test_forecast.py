"""Deadlines that cannot be met are refused, those that might be are not."""

import pytest

from legato.protocol.errors import DeadlineExceeded
from legato.protocol.requests import Credit, FinishReason
from legato.protocol.steps import StepResult

STEP_S = 0.1


def timed_step(drive) -> None:
    """Step a device of which a step takes ``STEP_S``."""
    drive.now_s += STEP_S
    while drive.planner.num_in_flight < 2 and drive.plan() is not None:
        pass
    if drive.results:
        result = drive.results[0]
        drive.results[0] = StepResult(
            result.step, result.tokens, drive.now_s - STEP_S, drive.now_s
        )
        drive.commit()
    drive.note(drive.planner.take_output(drive.now_s))


@pytest.fixture
def crowd(new_drive):
    """Four slots, twelve in line, and a pace that has been measured for a while."""
    drive = new_drive(patience_s=1000.0, prefix_cache=False)
    for request in range(36):
        drive.admit(request, 8, 6)
    while drive.planner.stats(drive.now_s).waiting > 12:
        timed_step(drive)
    return drive


def soon(drive) -> dict[str, float]:
    return {"created_s": drive.now_s, "ttft_deadline_s": 0.5}


def ask(drive, deadline_s: float, *, prompt: int = 8, **fields) -> None:
    fields = {"ttft_deadline_s": deadline_s, **fields}
    drive.admit(100, prompt, 6, created_s=drive.now_s, **fields)


def test_a_first_token_that_cannot_come_in_time_is_refused_with_the_numbers(crowd):
    with pytest.raises(DeadlineExceeded) as refused:
        ask(crowd, 0.5)
    told = str(refused.value)
    assert "ttft_deadline_s: of 0.5 s 0.5 s are left" in told
    assert "12 requests with 96 tokens go before it" in told
    assert "its prompt of 8 tokens" in told
    assert 100 not in crowd.planner._roster.live


def test_what_is_refused_would_have_been_late(crowd):
    with pytest.raises(DeadlineExceeded):
        ask(crowd, 0.8)
    ask(crowd, 0.0)
    asked_s = crowd.now_s
    while 100 not in crowd.tokens:
        timed_step(crowd)
    # The truth is about twice the forecast: 0.8 s was hopeless indeed.
    assert crowd.now_s - asked_s > 1.6


def test_half_of_what_the_pace_promises_is_let_in(crowd):
    ask(crowd, 1.5)
    assert 100 in crowd.planner._roster.live


def test_a_total_deadline_needs_the_first_token_too(crowd):
    with pytest.raises(DeadlineExceeded, match="total_deadline_s: of"):
        ask(crowd, 0.0, total_deadline_s=0.5)


def test_a_tenant_of_its_own_does_not_stand_behind_the_crowd(crowd):
    ask(crowd, 0.5, tenant="another")
    assert 100 in crowd.planner._roster.live


def test_a_more_urgent_request_does_not_stand_behind_the_crowd(crowd):
    ask(crowd, 0.5, priority=-1)
    assert 100 in crowd.planner._roster.live


def test_a_less_urgent_request_stands_behind_every_tenants_crowd(crowd):
    with pytest.raises(DeadlineExceeded, match="12 requests"):
        ask(crowd, 0.5, priority=1, tenant="another")


def test_a_short_prompt_may_pass_long_ones(new_drive):
    drive = new_drive(patience_s=1000.0, prefix_cache=False)
    for request in range(36):
        drive.admit(request, 30, 6)
    while drive.planner.stats(drive.now_s).waiting > 12:
        timed_step(drive)
    ask(drive, 0.5, prompt=2)
    assert 100 in drive.planner._roster.live


def test_without_a_measure_nothing_is_refused(new_drive):
    drive = new_drive()
    for request in range(30):
        drive.admit(request, 8, 6)
    ask(drive, 0.001)
    assert 100 in drive.planner._roster.live


def test_a_pace_without_a_line_says_nothing_of_a_line(new_drive):
    drive = new_drive()
    for request in range(20):
        drive.admit(request, 4, 2)
        for _ in range(10):
            timed_step(drive)
    for request in range(20, 30):
        drive.admit(request, 4, 2)
    ask(drive, 0.3)
    assert 100 in drive.planner._roster.live


def test_a_prompt_too_long_for_its_deadline_is_refused_unless_it_is_cached(new_drive):
    drive = new_drive(max_step_tokens=4)
    drive.admit(0, tuple(range(60)), 2)
    other = tuple(range(3, 63))
    while 0 not in drive.ended:
        timed_step(drive)
    with pytest.raises(DeadlineExceeded, match="60 tokens takes 13 steps"):
        drive.admit(100, other, 2, **soon(drive))
    drive.admit(101, tuple(range(60)), 2, **soon(drive))
    while 101 not in drive.tokens:
        timed_step(drive)
    assert drive.planner.stats(drive.now_s).prefix_hit_tokens == 59


def test_a_deadline_that_has_passed_on_the_way_is_refused(new_drive):
    drive = new_drive()
    drive.now_s = 3.0
    with pytest.raises(DeadlineExceeded, match="of 2 s -1 s are left"):
        drive.admit(0, 3, 3, created_s=0.0, ttft_deadline_s=2.0)


def test_a_stream_that_goes_on_after_a_crash_is_not_refused(crowd):
    prompt = tuple((100 * 7 + i) % 64 for i in range(8))
    crowd.admit(
        100, prompt, 6, emitted=(1,), ttft_deadline_s=0.1, created_s=crowd.now_s
    )
    assert 100 in crowd.planner._roster.live


def test_paused_streams_do_not_count_as_a_line(crowd):
    for request in list(crowd.planner._roster.live):
        crowd.planner.credit(Credit(request, False), crowd.now_s)
    ask(crowd, 0.5)
    for request in list(crowd.planner._roster.live):
        crowd.planner.credit(Credit(request, True), crowd.now_s)
    while crowd.planner.num_live:
        timed_step(crowd)
    assert crowd.ended[0].reason is FinishReason.LENGTH
