"""Requests whose time is up."""

from legato.protocol.requests import Credit, FinishReason


def test_a_request_past_its_deadline_ends_before_work(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3, created_s=0.0, ttft_deadline_s=0.5)
    assert drive.planner.wake_at(0.0) == 0.5
    drive.now_s = 0.6
    assert drive.plan() is None
    drive.finish()
    assert drive.ended[0].failure is not None
    assert drive.ended[0].failure.code == "deadline_exceeded"


def test_a_first_token_lifts_the_first_deadline(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 3, ttft_deadline_s=0.5)
    drive.plan()
    drive.commit()
    drive.now_s = 0.6
    assert drive.planner.wake_at(0.6) is None
    drive.finish()
    assert drive.ended[0].reason is FinishReason.LENGTH


def test_a_running_request_past_its_total_deadline_ends_and_frees_its_pages(new_drive):
    drive = new_drive(prefix_cache=False)
    drive.admit(0, 3, 30, total_deadline_s=0.5)
    for _ in range(4):
        drive.step()
    drive.now_s = 0.5
    for _ in range(3):
        drive.step()
    assert drive.ended[0].failure.code == "deadline_exceeded"
    assert drive.ended[0].usage.output_tokens == len(drive.tokens[0])
    assert drive.planner.stats(0.5).pages_used == 0


def test_a_paused_request_still_has_a_deadline(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 30, total_deadline_s=0.5)
    drive.planner.credit(Credit(0, False), 0.0)
    assert drive.planner.wake_at(0.1) == 0.5
    output = drive.planner.take_output(0.5)
    assert output.ended[0].failure.code == "deadline_exceeded"


def test_the_deadline_of_an_ended_request_wakes_nobody(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 2, total_deadline_s=0.5)
    drive.finish()
    assert drive.planner.wake_at(0.1) is None
