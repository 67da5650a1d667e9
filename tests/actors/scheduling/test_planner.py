"""The planner as a whole, on a fake device."""

from legato.gpu.fake import FakeRunner, fake_next
from legato.protocol.errors import Failure
from legato.protocol.requests import Cancel, Credit, FinishReason


def test_outputs_are_those_of_each_request_alone(new_drive):
    drive = new_drive()
    admits = [drive.admit(n, 3 + 5 * n, 7 + n) for n in range(6)]
    drive.finish()
    for admit in admits:
        assert drive.tokens[admit.request] == drive.truth(admit.request)
        assert drive.ended[admit.request].reason is FinishReason.LENGTH


def test_the_second_plan_reads_the_future_buffer(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 5)
    first, second = drive.plan(), drive.plan()
    assert first.rows[0].tokens == (0, 1, 2)
    assert (second.rows, second.decodes) == ((), (first.rows[0].slot,))
    assert drive.plan() is None


def test_cancel_is_idempotent_and_ignores_the_unknown(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 20)
    drive.planner.cancel(Cancel(0, "stop"), 0.0)
    drive.planner.cancel(Cancel(0), 0.0)
    drive.planner.cancel(Cancel(99), 0.0)
    drive.finish()
    assert drive.ended[0].reason is FinishReason.STOP
    assert list(drive.ended) == [0]


def test_cancel_frees_every_page_within_two_steps(new_drive):
    drive = new_drive(prefix_cache=False)
    drive.admit(0, 20, 20)
    for _ in range(4):
        drive.step()
    drive.planner.cancel(Cancel(0), drive.now_s)
    drive.step()
    drive.step()
    assert drive.planner.stats(0.0).pages_free == drive.limits.num_pages


def test_a_paused_stream_takes_no_row_and_goes_on_where_it_was(new_drive):
    drive = new_drive()
    admit = drive.admit(0, 5, 12)
    for _ in range(3):
        drive.step()
    drive.planner.credit(Credit(0, False), drive.now_s)
    while drive.results:
        drive.commit()
    assert drive.plan() is None
    assert not drive.planner.has_work
    assert drive.planner.stats(0.0).paused == 1
    drive.planner.credit(Credit(0, True), drive.now_s)
    drive.finish()
    assert drive.tokens[0] == drive.truth(admit.request)


def test_a_lost_device_repeats_and_loses_nothing(new_drive):
    drive = new_drive()
    admits = [drive.admit(n, 5 + n, 12) for n in range(6)]
    for _ in range(5):
        drive.step()
    drive.plan()
    drive.planner.lose_device(drive.now_s)
    drive.device, drive.results = FakeRunner(drive.limits), []
    assert drive.planner.stats(0.0).pages_free == drive.limits.num_pages
    drive.plans.clear()
    drive.finish()
    assert drive.plans[0].step == 0
    for admit in admits:
        assert drive.tokens[admit.request] == drive.truth(admit.request)


def test_a_request_goes_on_after_its_emitted_tokens(new_drive):
    drive = new_drive()
    expected = (fake_next((1, 2, 3), 64),)
    drive.admit(0, (1, 2, 3), 9, emitted=expected)
    drive.finish()
    assert [*expected, *drive.tokens[0]] == drive.truth(0)
    assert drive.ended[0].usage.output_tokens == 9


def test_a_request_whose_emitted_tokens_end_it_ends_at_once(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 2, emitted=(1, 2))
    drive.admit(1, 3, 9, emitted=(1, 5), stop_token_ids=(5,))
    drive.finish()
    assert drive.plans == []
    assert drive.ended[0].reason is FinishReason.LENGTH
    assert drive.ended[1].reason is FinishReason.STOP


def test_fail_all_ends_every_request_with_the_cause(new_drive):
    drive = new_drive()
    for request in range(6):
        drive.admit(request, 5, 9)
    drive.plan()
    failure = Failure("engine_failed", "the device is gone")
    output = drive.planner.fail_all(failure, 0.0)
    assert {ended.request for ended in output.ended} == set(range(6))
    assert {ended.failure for ended in output.ended} == {failure}
    assert drive.planner.num_live == 0
