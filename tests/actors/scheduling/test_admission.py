"""Refusals at the door."""

import pytest

from legato.protocol.errors import ContextOverflow, InvalidRequest, Overloaded
from legato.protocol.steps import RunnerLimits


def test_what_can_never_fit_is_refused_with_the_numbers(new_drive):
    drive = new_drive()
    with pytest.raises(ContextOverflow, match="64 tokens, but the context of 64"):
        drive.admit(0, 64, 1)
    with pytest.raises(InvalidRequest, match="the 54 tokens that a prompt of 10"):
        drive.admit(0, 10, 55)
    with pytest.raises(InvalidRequest, match="token id 64 is outside"):
        drive.admit(0, (64,), 5)
    assert drive.planner.num_live == 0


def test_too_many_waiting_are_refused_with_a_time_to_retry(new_drive):
    drive = new_drive(max_waiting=2)
    drive.admit(0, 3, 3)
    drive.admit(1, 3, 3)
    with pytest.raises(Overloaded) as refused:
        drive.admit(2, 3, 3)
    assert refused.value.retry_after_s > 0


def test_waiting_tokens_are_bounded_but_one_request_always_passes(new_drive):
    drive = new_drive(max_waiting_tokens=20)
    drive.admit(0, 30, 3)
    with pytest.raises(Overloaded, match="30 tokens are waiting, 20 may"):
        drive.admit(1, 3, 3)
    drive.plan()
    drive.admit(2, 3, 3)
    assert drive.planner.num_live == 2


def test_the_time_to_retry_follows_from_the_measured_rate(new_drive):
    drive = new_drive(max_waiting=8)
    for request in range(100):
        drive.admit(request, 4, 1)
        drive.step(step_s=0.1)
        drive.step(step_s=0.1)
    for request in range(100, 108):
        drive.admit(request, 40, 1)
    with pytest.raises(Overloaded) as refused:
        drive.admit(200, 40, 1)
    # 4 tokens had their turn every 0.2 s, and 40 must go before the next may come.
    assert 1.5 < refused.value.retry_after_s < 2.5


def test_a_prompt_longer_than_the_cache_is_refused(new_drive):
    limits = RunnerLimits(
        num_slots=1,
        num_pages=2,
        page_size=4,
        max_context=64,
        max_step_tokens=8,
        vocab_size=64,
        page_bytes=0,
    )
    drive = new_drive(limits)
    with pytest.raises(ContextOverflow, match="the cache of 8 positions"):
        drive.admit(0, 9, 1)
    with pytest.raises(InvalidRequest, match="2 pages of 4"):
        drive.admit(0, 6, 4)
    drive.admit(0, 6, 3)
    drive.finish()
    assert drive.tokens[0] == drive.truth(0)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "fields"),
    [
        ((), 1, {}),
        ((1,), 0, {}),
        ((-1,), 1, {}),
        ((1,), 1, {"emitted": (1, 2)}),
        ((1,), 2, {"emitted": (64,)}),
    ],
)
def test_malformed_requests_are_refused(new_drive, prompt, max_tokens, fields):
    drive = new_drive()
    with pytest.raises(InvalidRequest):
        drive.admit(0, prompt, max_tokens, **fields)
    assert drive.planner.num_live == 0


def test_a_request_number_in_use_is_refused(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3)
    with pytest.raises(InvalidRequest, match="request 0 is already running"):
        drive.admit(0, 3, 3)
