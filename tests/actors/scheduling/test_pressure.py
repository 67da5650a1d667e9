"""Who gives up slot and pages."""

from legato.protocol.requests import Credit
from legato.protocol.steps import RunnerLimits


def test_pressure_preempts_the_latest_and_nobody_sees_it(new_drive):
    limits = RunnerLimits(
        num_slots=4,
        num_pages=10,
        page_size=4,
        max_context=40,
        max_step_tokens=16,
        vocab_size=64,
        page_bytes=0,
    )
    drive = new_drive(limits)
    admits = [drive.admit(n, 6, 20) for n in range(4)]
    drive.finish()
    assert drive.planner.stats(0.0).preemptions > 0
    for admit in admits:
        assert drive.tokens[admit.request] == drive.truth(admit.request)


def test_a_paused_stream_gives_its_slot_to_one_that_can_run(new_drive):
    drive = new_drive()
    admits = [drive.admit(n, 5, 12) for n in range(4)]
    drive.step()
    drive.step()
    drive.planner.credit(Credit(2, False), drive.now_s)
    admits.append(drive.admit(4, 5, 3))
    for _ in range(8):
        drive.step()
    assert 4 in drive.ended
    drive.planner.credit(Credit(2, True), drive.now_s)
    drive.finish()
    for admit in admits:
        assert drive.tokens[admit.request] == drive.truth(admit.request)


def test_the_most_urgent_takes_pages_from_the_least(new_drive):
    limits = RunnerLimits(
        num_slots=3,
        num_pages=12,
        page_size=4,
        max_context=48,
        max_step_tokens=32,
        vocab_size=64,
        page_bytes=0,
    )
    drive = new_drive(limits)
    drive.admit(0, 9, 8, priority=1)
    drive.admit(1, 9, 24, priority=2)
    for _ in range(3):
        drive.step()
    drive.admit(2, 24, 8, priority=0)
    drive.finish()
    assert list(drive.ended) == [0, 2, 1]
    assert drive.planner.stats(0.0).preemptions == 1
    for request in range(3):
        assert drive.tokens[request] == drive.truth(request)


def test_an_equal_in_line_displaces_nobody(new_drive):
    limits = RunnerLimits(
        num_slots=1,
        num_pages=9,
        page_size=4,
        max_context=36,
        max_step_tokens=32,
        vocab_size=64,
        page_bytes=0,
    )
    drive = new_drive(limits)
    drive.admit(0, 9, 20)
    drive.step()
    drive.admit(1, 2, 2)
    drive.finish()
    assert list(drive.ended) == [0, 1]
    assert drive.planner.stats(0.0).preemptions == 0


def test_many_ended_sequences_leave_nothing_in_the_watch_list(new_drive):
    drive = new_drive()
    for request in range(200):
        drive.admit(request, 2, 1)
        drive.step()
    drive.finish()
    assert len(drive.planner._pressure._weakest) <= 2 * 4 + 64 + 1
