"""The planner as a whole, on a fake device."""

from itertools import pairwise

import pytest

from legato.actors.scheduling import Planner, PlannerSettings
from legato.gpu.fake import FakeRunner, fake_next
from legato.protocol.errors import ContextOverflow, Failure, InvalidRequest, Overloaded
from legato.protocol.requests import (
    Admit,
    Cancel,
    Credit,
    Emitted,
    Ended,
    FinishReason,
    StepOutput,
)
from legato.protocol.steps import RowSampling, RunnerLimits, SampledToken, StepResult

LIMITS = RunnerLimits(
    num_slots=4,
    num_pages=32,
    page_size=4,
    max_context=64,
    max_step_tokens=16,
    vocab_size=64,
    page_bytes=0,
)
GREEDY = RowSampling(0.0)


def truth(admit: Admit) -> list[int]:
    history = list(admit.prompt)
    for number in range(admit.max_tokens):
        token = fake_next(history, LIMITS.vocab_size)
        history.append(token)
        if token in admit.sampling.ends and number >= admit.sampling.min_tokens:
            break
    return history[len(admit.prompt) :]


class Drive:
    """A planner on a fake device that can be stepped by hand."""

    def __init__(self, limits: RunnerLimits = LIMITS, **settings: object) -> None:
        self.limits = limits
        self.planner = Planner(limits, PlannerSettings(**settings))  # type: ignore
        self.device = FakeRunner(limits)
        self.results: list[StepResult] = []
        self.plans: list[object] = []
        self.tokens: dict[int, list[int]] = {}
        self.ended: dict[int, Ended] = {}
        self.now_s = 0.0

    def admit(self, request: int, prompt: int | tuple[int, ...], *args, **fields):
        if isinstance(prompt, int):
            prompt = tuple((request * 7 + i) % 64 for i in range(prompt))
        admit = Admit(request, prompt, *args, **{"sampling": GREEDY, **fields})
        self.planner.admit(admit, self.now_s)
        return admit

    def plan(self):
        plan = self.planner.plan(self.now_s)
        if plan is not None:
            self.plans.append(plan)
            self.results.append(self.device.launch(plan).result)
        return plan

    def commit(self) -> StepOutput:
        output = self.planner.commit(self.results.pop(0), self.now_s)
        self.note(output)
        return output

    def note(self, output: StepOutput | None) -> None:
        if output is None:
            return
        for emitted in output.emitted:
            assert emitted.request not in self.ended
            self.tokens.setdefault(emitted.request, []).append(emitted.token)
        for ended in output.ended:
            assert ended.request not in self.ended
            self.ended[ended.request] = ended

    def step(self, step_s: float = 0.01) -> None:
        """Keep two plans in flight, commit one."""
        self.now_s += step_s
        while self.planner.num_in_flight < 2 and self.plan() is not None:
            pass
        if self.results:
            self.commit()
        self.note(self.planner.take_output(self.now_s))

    def finish(self, steps: int = 1000) -> None:
        for _ in range(steps):
            self.note(self.planner.take_output(self.now_s))
            if not self.planner.num_live and not self.results:
                return
            self.step()
        raise AssertionError(f"not idle: {self.planner.stats(self.now_s)}")


def test_outputs_are_those_of_each_request_alone():
    drive = Drive()
    admits = [drive.admit(n, 3 + 5 * n, 7 + n) for n in range(6)]
    drive.finish()
    for admit in admits:
        assert drive.tokens[admit.request] == truth(admit)
        assert drive.ended[admit.request].reason is FinishReason.LENGTH


def test_the_second_plan_reads_the_future_buffer():
    drive = Drive()
    drive.admit(0, 3, 5)
    first, second = drive.plan(), drive.plan()
    assert first.rows[0].tokens == (0, 1, 2)
    assert second.rows[0].tokens == ()
    assert second.rows[0].start == 3
    assert drive.plan() is None


def test_nothing_is_planned_beyond_max_tokens():
    drive = Drive()
    drive.admit(0, 3, 2)
    drive.finish()
    assert len(drive.plans) == 2
    assert drive.planner.stats(0).dropped_tokens == 0


def test_an_end_token_is_emitted_and_wastes_at_most_one_row():
    drive = Drive()
    prompt = (1, 2, 3)
    end = fake_next(prompt, 64)
    drive.admit(0, prompt, 9, sampling=RowSampling(0.0, ends=(end,)))
    drive.finish()
    assert drive.tokens[0] == [end]
    assert drive.ended[0].reason is FinishReason.STOP
    assert drive.ended[0].end_token
    assert drive.planner.stats(0).dropped_tokens == 1


def test_an_end_token_as_the_last_allowed_token_is_a_stop():
    drive = Drive()
    end = fake_next((1, 2, 3), 64)
    drive.admit(0, (1, 2, 3), 1, sampling=RowSampling(0.0, ends=(end,)))
    drive.finish()
    assert drive.ended[0].reason is FinishReason.STOP
    assert drive.ended[0].usage.output_tokens == 1


def test_ignored_ends_do_not_end_but_stop_ids_do():
    drive = Drive()
    end = fake_next((1, 2, 3), 64)
    sampling = RowSampling(0.0, ends=(end,))
    drive.admit(0, (1, 2, 3), 4, sampling=sampling, ignore_eos=True)
    drive.admit(1, (1, 2, 3), 4, stop_token_ids=(end,))
    drive.finish()
    assert drive.ended[0].reason is FinishReason.LENGTH
    assert len(drive.tokens[0]) == 4
    assert drive.tokens[1] == [end]


def test_a_cancelled_request_drops_what_is_in_flight():
    drive = Drive()
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


def test_cancel_is_idempotent_and_ignores_the_unknown():
    drive = Drive()
    drive.admit(0, 3, 20)
    drive.planner.cancel(Cancel(0, "stop"), 0.0)
    drive.planner.cancel(Cancel(0), 0.0)
    drive.planner.cancel(Cancel(99), 0.0)
    drive.finish()
    assert drive.ended[0].reason is FinishReason.STOP
    assert list(drive.ended) == [0]


def test_cancel_frees_every_page_within_two_steps():
    drive = Drive(prefix_cache=False)
    drive.admit(0, 20, 20)
    for _ in range(4):
        drive.step()
    drive.planner.cancel(Cancel(0), drive.now_s)
    drive.step()
    drive.step()
    assert drive.planner.stats(0.0).pages_free == LIMITS.num_pages


def test_a_page_is_not_reused_while_a_step_in_flight_may_touch_it():
    limits = RunnerLimits(
        num_slots=2,
        num_pages=2,
        page_size=4,
        max_context=8,
        max_step_tokens=8,
        vocab_size=64,
        page_bytes=0,
    )
    drive = Drive(limits, prefix_cache=False)
    drive.admit(0, 5, 3)
    drive.plan()
    drive.planner.cancel(Cancel(0), 0.0)
    drive.admit(1, 5, 3)
    assert drive.plan() is None
    drive.commit()
    assert drive.plan() is not None


def test_a_faulty_row_ends_its_own_sequence_only():
    drive = Drive()
    drive.admit(0, 3, 5)
    other = drive.admit(1, 4, 5)
    drive.plan()
    result = drive.results[0]
    broken = SampledToken(result.sampled[0].slot, 0, None, "NaN logits")
    drive.results[0] = StepResult(0, (broken, *result.sampled[1:]))
    drive.finish()
    assert drive.ended[0].reason is FinishReason.ERROR
    assert drive.ended[0].failure == Failure("engine_failed", "NaN logits")
    assert 0 not in drive.tokens
    assert drive.tokens[1] == truth(other)


def test_pressure_preempts_the_latest_and_nobody_sees_it():
    limits = RunnerLimits(
        num_slots=4,
        num_pages=10,
        page_size=4,
        max_context=40,
        max_step_tokens=16,
        vocab_size=64,
        page_bytes=0,
    )
    drive = Drive(limits)
    admits = [drive.admit(n, 6, 20) for n in range(4)]
    drive.finish()
    assert drive.planner.stats(0.0).preemptions > 0
    for admit in admits:
        assert drive.tokens[admit.request] == truth(admit)


def test_more_streams_than_a_step_holds_take_turns():
    drive = Drive(max_step_tokens=2)
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
    turns = [{row.slot for row in plan.rows} for plan in drive.plans]
    for turn, following in pairwise(turns):
        assert turn | following == {0, 1, 2, 3}


def test_a_long_prompt_never_takes_a_running_streams_row():
    drive = Drive(max_step_tokens=4)
    drive.admit(0, 2, 30)
    drive.step()
    drive.admit(1, 40, 2)
    for _ in range(12):
        drive.step()
    for plan in drive.plans[2:]:
        assert plan.num_tokens <= 4
        assert plan.rows[0].slot == 0


def test_a_paused_stream_takes_no_row_and_goes_on_where_it_was():
    drive = Drive()
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
    assert drive.tokens[0] == truth(admit)


def test_a_paused_stream_gives_its_slot_to_one_that_can_run():
    drive = Drive()
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
        assert drive.tokens[admit.request] == truth(admit)


def test_a_lost_device_repeats_and_loses_nothing():
    drive = Drive()
    admits = [drive.admit(n, 5 + n, 12) for n in range(6)]
    for _ in range(5):
        drive.step()
    drive.plan()
    drive.planner.lose_device(drive.now_s)
    drive.device, drive.results = FakeRunner(LIMITS), []
    assert drive.planner.stats(0.0).pages_free == LIMITS.num_pages
    drive.plans.clear()
    drive.finish()
    assert drive.plans[0].step == 0
    for admit in admits:
        assert drive.tokens[admit.request] == truth(admit)


def test_a_request_goes_on_after_its_emitted_tokens():
    drive = Drive()
    whole = Admit(0, (1, 2, 3), 9, GREEDY)
    expected = truth(whole)
    drive.admit(0, (1, 2, 3), 9, emitted=tuple(expected[:4]))
    drive.finish()
    assert drive.tokens[0] == expected[4:]
    assert drive.ended[0].usage.output_tokens == 9


def test_a_request_whose_emitted_tokens_end_it_ends_at_once():
    drive = Drive()
    drive.admit(0, 3, 2, emitted=(1, 2))
    drive.admit(1, 3, 9, emitted=(1, 5), stop_token_ids=(5,))
    drive.finish()
    assert drive.plans == []
    assert drive.ended[0].reason is FinishReason.LENGTH
    assert drive.ended[1].reason is FinishReason.STOP


def test_fail_all_ends_every_request_with_the_cause():
    drive = Drive()
    for request in range(6):
        drive.admit(request, 5, 9)
    drive.plan()
    failure = Failure("engine_failed", "the device is gone")
    output = drive.planner.fail_all(failure, 0.0)
    assert {ended.request for ended in output.ended} == set(range(6))
    assert {ended.failure for ended in output.ended} == {failure}
    assert drive.planner.num_live == 0


def test_what_can_never_fit_is_refused_with_the_numbers():
    drive = Drive()
    with pytest.raises(ContextOverflow, match="64 tokens, but the context of 64"):
        drive.admit(0, 64, 1)
    with pytest.raises(InvalidRequest, match="the 54 tokens that a prompt of 10"):
        drive.admit(0, 10, 55)
    with pytest.raises(InvalidRequest, match="token id 64 is outside"):
        drive.admit(0, (64,), 5)
    assert drive.planner.num_live == 0


def test_too_many_waiting_are_refused_with_a_time_to_retry():
    drive = Drive(max_waiting=2)
    drive.admit(0, 3, 3)
    drive.admit(1, 3, 3)
    with pytest.raises(Overloaded) as refused:
        drive.admit(2, 3, 3)
    assert refused.value.retry_after_s > 0


def test_a_request_past_its_deadline_ends_before_work():
    drive = Drive()
    drive.admit(0, 3, 3, created_s=0.0, ttft_deadline_s=0.5)
    assert drive.planner.wake_at(0.0) == 0.5
    drive.now_s = 0.6
    assert drive.plan() is None
    drive.finish()
    assert drive.ended[0].failure is not None
    assert drive.ended[0].failure.code == "deadline_exceeded"


def test_a_first_token_lifts_the_first_deadline():
    drive = Drive()
    drive.admit(0, 3, 3, ttft_deadline_s=0.5)
    drive.plan()
    drive.commit()
    drive.now_s = 0.6
    assert drive.planner.wake_at(0.6) is None
    drive.finish()
    assert drive.ended[0].reason is FinishReason.LENGTH


def test_a_penalized_sequence_brings_its_history_again_when_it_resumes():
    drive = Drive()
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


def test_a_result_out_of_order_is_refused():
    drive = Drive()
    drive.admit(0, 3, 3)
    drive.plan()
    with pytest.raises(ValueError, match="step 7, expected 0"):
        drive.planner.commit(StepResult(7, ()), 0.0)
