"""What results mean: tokens, endings, drops."""

from legato.gpu.fake import fake_next
from legato.protocol.errors import Failure
from legato.protocol.requests import Cancel, FinishReason
from legato.protocol.steps import RowSampling, StepResult


def test_an_end_token_is_emitted_and_wastes_at_most_one_row(new_drive):
    drive = new_drive()
    prompt = (1, 2, 3)
    end = fake_next(prompt, 64)
    drive.admit(0, prompt, 9, sampling=RowSampling(0.0, ends=(end,)))
    drive.finish()
    assert drive.tokens[0] == [end]
    assert drive.ended[0].reason is FinishReason.STOP
    assert drive.ended[0].end_token
    assert drive.planner.stats(0).dropped_tokens == 1


def test_an_end_token_as_the_last_allowed_token_is_a_stop(new_drive):
    drive = new_drive()
    end = fake_next((1, 2, 3), 64)
    drive.admit(0, (1, 2, 3), 1, sampling=RowSampling(0.0, ends=(end,)))
    drive.finish()
    assert drive.ended[0].reason is FinishReason.STOP
    assert drive.ended[0].usage.output_tokens == 1


def test_ignored_ends_do_not_end_but_stop_ids_do(new_drive):
    drive = new_drive()
    end = fake_next((1, 2, 3), 64)
    sampling = RowSampling(0.0, ends=(end,))
    drive.admit(0, (1, 2, 3), 4, sampling=sampling, ignore_eos=True)
    drive.admit(1, (1, 2, 3), 4, stop_token_ids=(end,))
    drive.finish()
    assert drive.ended[0].reason is FinishReason.LENGTH
    assert len(drive.tokens[0]) == 4
    assert drive.tokens[1] == [end]


def test_a_cancelled_request_drops_what_is_in_flight(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 20)
    drive.plan()
    drive.plan()
    drive.planner.cancel(Cancel(0), 0.0)
    output = drive.planner.take_output(0.0)
    assert output is not None
    assert output.ended[0].reason is FinishReason.CANCELLED
    assert drive.commit().emitted == ()
    assert drive.commit().emitted == ()
    stats = drive.planner.stats(0.0)
    assert stats.dropped_tokens == 2
    assert stats.pages_used == 0


def test_a_faulty_row_ends_its_own_sequence_only(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 5)
    drive.admit(1, 4, 5)
    drive.plan()
    result = drive.results[0]
    drive.results[0] = StepResult(0, result.tokens, faults={0: "NaN logits"})
    drive.finish()
    assert drive.ended[0].reason is FinishReason.ERROR
    assert drive.ended[0].failure == Failure("engine_failed", "NaN logits")
    assert 0 not in drive.tokens
    assert drive.tokens[1] == drive.truth(1)


def test_an_end_before_min_tokens_does_not_end(new_drive):
    drive = new_drive()
    end = fake_next((1, 2, 3), 64)
    sampling = RowSampling(0.0, ends=(end,), min_tokens=2)
    drive.admit(0, (1, 2, 3), 9, sampling=sampling)
    drive.plan()
    # A device that does not suppress the end token, as it should.
    drive.results[0] = StepResult(0, (end,))
    assert drive.commit().ended == ()


def test_what_a_faulty_sequence_computed_is_not_cached(new_drive):
    drive = new_drive(max_step_tokens=8)
    drive.admit(0, (*range(16),), 5)
    drive.plan()
    drive.plan()
    drive.commit()
    drive.results[0] = StepResult(1, (0,), faults={0: "NaN logits"})
    drive.finish()
    stats = drive.planner.stats(0.0)
    assert (stats.pages_free, stats.pages_cached) == (stats.pages_total, 0)


def test_logprobs_pass_through(new_drive):
    drive = new_drive()
    drive.admit(0, 3, 2, sampling=RowSampling(0.0, logprobs=1))
    drive.plan()
    emitted = drive.commit().emitted[0]
    assert emitted.logprobs.ids == (emitted.token,)
