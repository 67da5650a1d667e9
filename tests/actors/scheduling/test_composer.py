"""Which rows fill a step."""

import random
from itertools import pairwise

import msgspec
import pytest

from legato.protocol.requests import Credit, Emitted
from legato.protocol.steps import RowSampling, RunnerLimits

WIDE = RunnerLimits(
    num_slots=16,
    num_pages=999,
    page_size=4,
    max_context=200,
    max_step_tokens=16,
    vocab_size=64,
    page_bytes=0,
)


def test_more_streams_than_a_step_holds_take_turns(new_drive):
    drive = new_drive(max_step_tokens=2)
    for requests in ((0, 1), (2, 3)):
        for request in requests:
            drive.admit(request, 1, 30)
        for _ in range(3):
            drive.step()
        for request in requests:
            drive.planner.credit(Credit(request, False), drive.now_s)
    for request in range(4):
        drive.planner.credit(Credit(request, True), drive.now_s)
    while drive.results:
        drive.commit()
    drive.plans.clear()
    for _ in range(8):
        drive.step()
    turns = [{*plan.slots} for plan in drive.plans]
    for turn, following in pairwise(turns):
        assert turn | following == {0, 1, 2, 3}


def test_a_long_prompt_never_takes_a_running_streams_row(new_drive):
    drive = new_drive(max_step_tokens=4)
    drive.admit(0, 2, 30)
    drive.step()
    drive.admit(1, 40, 2)
    for _ in range(12):
        drive.step()
    for plan in drive.plans[2:]:
        assert plan.num_tokens <= 4
        assert plan.slots[0] == 0


def test_a_penalized_sequence_brings_its_history_again_when_it_resumes(new_drive):
    drive = new_drive()
    sampling = RowSampling(0.0, presence_penalty=1.0)
    drive.admit(0, (1, 2, 3), 9, sampling=sampling)
    plan = drive.plan()
    assert plan.opens[0].history == (1, 2, 3)
    first = drive.commit().emitted[0]
    assert isinstance(first, Emitted)
    drive.planner.lose_device(0.0)
    plan = drive.plan()
    assert plan.opens[0].history == (1, 2, 3, first.token)
    assert plan.rows[0].tokens == (1, 2, 3, first.token)


def test_nothing_is_planned_beyond_max_tokens(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 2)
    drive.finish()
    assert len(drive.plans) == 2
    assert drive.planner.stats(0).dropped_tokens == 0


def test_a_short_prompt_slips_between_the_chunks_of_a_long_one(new_drive):
    drive = new_drive(max_step_tokens=8)
    drive.admit(0, 60, 2)
    drive.step()
    drive.admit(1, 4, 2)
    for _ in range(6):
        drive.step()
    assert 1 in drive.ended
    assert 0 not in drive.tokens
    drive.finish()
    assert drive.tokens[0] == drive.truth(0)


def test_a_step_mixes_decodes_and_several_prompts(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 9)
    drive.plan()
    drive.admit(1, 4, 9)
    drive.admit(2, 5, 9)
    plan = drive.plan()
    assert len(plan.decodes) == 1
    assert [row.num_tokens for row in plan.rows] == [4, 5]
    assert [row.samples for row in plan.rows] == [True, True]


def test_a_chunk_that_does_not_end_the_prompt_samples_nothing(new_drive):
    drive = new_drive()
    drive.admit(0, 20, 9)
    first, second = drive.plan(), drive.plan()
    assert [row.num_tokens for row in (*first.rows, *second.rows)] == [16, 4]
    assert not first.rows[0].samples
    assert drive.commit().emitted == ()


def test_urgent_prompts_delay_the_chunks_of_others_but_never_starve_them(new_drive):
    drive = new_drive(max_step_tokens=8, patience_s=1.0, prefix_cache=False)
    drive.admit(0, 40, 2, priority=1)
    drive.step()
    for request in range(1, 400):
        drive.admit(request, 8, 1, priority=0)
        drive.step()
        if 0 in drive.ended:
            break
    # One patience raises it to the others' priority, its ratio does the rest.
    assert 1.0 < drive.now_s < 2.5
    assert drive.tokens[0] == drive.truth(0)


@pytest.mark.parametrize("budget", [8, 11, 16])
def test_no_stream_waits_longer_for_a_row_than_its_bound_whatever_the_prompts(
    new_drive, budget
):
    drive = new_drive(WIDE, max_step_tokens=budget, prefix_cache=False)
    draw = random.Random(budget)
    streams = range(7)
    for request in streams:
        drive.admit(request, 1, 150)
    while len(drive.tokens) < len(streams):
        drive.step()
    slots = {drive.planner._roster.live[request].slot for request in streams}
    for request in range(100, 170):
        drive.admit(request, draw.choice((1, 3, 40, 150)), draw.choice((1, 5, 40)))
        drive.step()
    assert all(plan.num_tokens <= budget for plan in drive.plans)
    # At most all 16 slots decode, and a step holds so many of them.
    bound = -(-16 // budget)
    for slot in slots:
        turns = [n for n, plan in enumerate(drive.plans) if slot in plan.decodes]
        assert max(later - turn for turn, later in pairwise(turns)) <= bound
        assert len(drive.plans) - turns[-1] <= bound


@pytest.mark.parametrize(
    ("decodes", "tokens"),
    [
        (1, 10),  # three quarters of a step, of which the decode takes two
        (6, 7),  # five eighths of what the six take
        (9, 7),  # what is left
    ],
)
def test_prompts_leave_room_beside_decodes_where_steps_take_what_they_compute(
    new_drive, decodes, tokens
):
    limits = msgspec.structs.replace(WIDE, decode_weight=2.0)
    drive = new_drive(limits, prefix_cache=False)
    for request in range(decodes):
        drive.admit(request, 1, 40)
    for _ in range(4):
        drive.step()
    drive.admit(20, 80, 2)
    for _ in range(5):
        drive.step()
    beside = [plan for plan in drive.plans if len(plan.decodes) == decodes]
    assert max(plan.num_tokens - decodes for plan in beside) == tokens


def test_a_prompt_alone_fills_a_step(new_drive):
    drive = new_drive(msgspec.structs.replace(WIDE, decode_weight=2.0))
    drive.admit(0, 80, 2)
    drive.step()
    assert drive.plans[0].num_tokens == 16
