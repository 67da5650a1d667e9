"""The scheduler against a device that runs only when the test says so."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from legato.actors.orders import Order
from legato.actors.restarts import RestartLimit
from legato.actors.scheduler import Event, Scheduler
from legato.actors.scheduling.settings import PlannerSettings
from legato.actors.text import Speller
from legato.gpu.fake import FAKE_LIMITS, FakeRunner, fake_answer, fake_text
from legato.gpu.grammar import Grammars
from legato.mailbox import LoopInbox
from legato.protocol.core import CoreReport, StopCore, TellStats, WhenIdle
from legato.protocol.errors import Failure
from legato.protocol.requests import Admit, Cancel, Credit, Ended, FinishReason
from legato.protocol.steps import (
    DeviceFailed,
    DeviceReady,
    RowSampling,
    StepPlan,
)
from legato.protocol.tracing import StartTrace, StopTrace, TraceSpan


@dataclass
class HandDevice:
    """Keeps the plans it is given, and runs one when told."""

    plans: list[StepPlan] = field(default_factory=list[StepPlan])
    runner: FakeRunner = field(default_factory=FakeRunner)
    closed: bool = False

    def start(self) -> None:
        pass

    def post(self, plan: StepPlan) -> None:
        self.plans.append(plan)

    def close(self) -> None:
        self.closed = True

    def join(self) -> None:
        assert self.closed


class Stage:
    """A running scheduler, with both its ends in the test's hands."""

    def __init__(self, depth: int = 2, restarts: int = 1) -> None:
        self.inbox = LoopInbox[Event]("scheduler", 64)
        self.address = self.inbox.address()
        self.reports = LoopInbox[CoreReport]("reports", 1024)
        self.devices: list[HandDevice] = []
        self.output: list[CoreReport] = []
        self.scheduler = Scheduler(
            self.inbox,
            self.reports.address(),
            self._start_device,
            PlannerSettings(depth=depth),
            RestartLimit(restarts),
            grammars=Grammars(Speller(fake_text)),
        )

    def _start_device(self) -> HandDevice:
        self.devices.append(HandDevice())
        return self.devices[-1]

    @property
    def device(self) -> HandDevice:
        return self.devices[-1]

    def say(self, *orders: Order) -> None:
        for order in orders:
            if isinstance(order, Admit):
                self.address.put_nowait(order)
            else:
                self.address.put_urgent(order)

    def ready(self) -> None:
        self.address.put_urgent(DeviceReady(FAKE_LIMITS, "fake"))

    async def settle(self) -> None:
        """Let the scheduler take what waits; it awaits nothing but its inbox."""
        for _ in range(6):
            await asyncio.sleep(0)
        self.output += self.reports.drain_nowait()

    async def step(self) -> None:
        """Let the device run its oldest plan."""
        plan = self.device.plans.pop(0)
        self.address.put_urgent(self.device.runner.launch(plan).wait())
        await self.settle()

    def tokens(self, request: int) -> tuple[int, ...]:
        return tuple(
            emitted.token
            for report in self.output
            if report.output
            for emitted in report.output.emitted
            if emitted.request == request
        )

    def ends(self, request: int) -> list[Ended]:
        return [
            ended
            for report in self.output
            if report.output
            for ended in report.output.ended
            if ended.request == request
        ]


def perform(body: Callable[[Stage], Awaitable[None]], **options: int) -> None:
    async def main() -> None:
        stage = Stage(**options)
        running = asyncio.create_task(stage.scheduler.run())
        await stage.settle()
        stage.ready()
        await stage.settle()
        await body(stage)
        if not running.done():
            stage.say(StopCore())
        await running
        assert stage.device.closed or stage.devices

    asyncio.run(main())


def admit(request: int, prompt: bytes = b"hello", max_tokens: int = 8) -> Admit:
    greedy = RowSampling(temperature=0.0, ends=(256,))
    return Admit(request, tuple(prompt), max_tokens, greedy, ignore_eos=True)


def test_the_next_step_waits_while_one_runs():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        assert [plan.step for plan in stage.device.plans] == [0, 1]
        await stage.step()
        assert [plan.step for plan in stage.device.plans] == [1, 2]
        assert stage.tokens(1) == fake_answer(b"hello", 1, end=None)

    perform(body)


def test_with_depth_one_nothing_waits():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        assert [plan.step for plan in stage.device.plans] == [0]
        await stage.step()
        assert [plan.step for plan in stage.device.plans] == [1]

    perform(body, depth=1)


def test_an_answer_is_whole_and_ends_once():
    async def body(stage: Stage) -> None:
        stage.say(admit(1), admit(2, b"other", 3))
        await stage.settle()
        while stage.device.plans:
            await stage.step()
        assert stage.tokens(1) == fake_answer(b"hello", 8, end=None)
        assert stage.tokens(2) == fake_answer(b"other", 3, end=None)
        for request in (1, 2):
            (end,) = stage.ends(request)
            assert end.reason is FinishReason.LENGTH

    perform(body)


def test_a_cancel_that_overtakes_its_admission_is_honoured():
    async def body(stage: Stage) -> None:
        stage.say(admit(1), Cancel(1))
        await stage.settle()
        assert stage.device.plans == []
        (end,) = stage.ends(1)
        assert end.reason is FinishReason.CANCELLED
        assert stage.tokens(1) == ()

    perform(body)


def test_a_request_that_can_never_fit_fails_alone():
    async def body(stage: Stage) -> None:
        stage.say(admit(1), admit(2, b"x" * 4000))
        await stage.settle()
        (end,) = stage.ends(2)
        assert end.failure is not None
        assert "4000" in end.failure.message
        while stage.device.plans:
            await stage.step()
        assert len(stage.tokens(1)) == 8

    perform(body)


def test_a_dead_device_is_replaced_and_the_answer_goes_on():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        await stage.step()
        await stage.step()
        stage.address.put_urgent(DeviceFailed(Failure("engine_failed", "melted")))
        await stage.settle()
        first, second = stage.devices
        assert first.closed
        stage.ready()
        await stage.settle()
        assert second.plans[0].step == 0
        while second.plans:
            await stage.step()
        assert stage.tokens(1) == fake_answer(b"hello", 8, end=None)
        assert len(stage.ends(1)) == 1

    perform(body)


def test_past_the_limit_all_fail_and_the_core_says_so():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        for _ in range(2):
            stage.address.put_urgent(DeviceFailed(Failure("engine_failed", "melted")))
            await stage.settle()
        (end,) = stage.ends(1)
        assert end.failure == Failure("engine_failed", "melted")
        assert any(report.failure == end.failure for report in stage.output)

    perform(body)


def test_stopping_ends_what_lives():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        stage.say(StopCore())
        await stage.settle()
        (end,) = stage.ends(1)
        assert end.failure is not None
        assert end.failure.code == "engine_closed"
        assert stage.device.closed

    perform(body)


def test_idle_is_answered_only_at_rest():
    async def body(stage: Stage) -> None:
        stage.say(admit(1, max_tokens=2), WhenIdle(7))
        await stage.settle()
        while stage.device.plans:
            assert not any(report.idle for report in stage.output)
            await stage.step()
        (report,) = [report for report in stage.output if report.idle]
        assert report.idle == (7,)
        assert report.stats is not None
        assert report.stats.pages_used == 0

    perform(body)


def test_stats_are_told_at_once_to_who_asks():
    async def body(stage: Stage) -> None:
        stage.say(admit(1))
        await stage.settle()
        await stage.step()
        for num_asked in range(1, 4):
            stage.output.clear()
            stage.say(TellStats())
            await stage.settle()
            told = [r.stats for r in stage.output if r.stats is not None]
            assert [(s.steps, s.in_flight) for s in told] == [(1, 2)], num_asked

    perform(body)


def test_a_core_that_rests_because_all_are_paused_says_so():
    async def body(stage: Stage) -> None:
        stage.say(admit(1, max_tokens=50))
        await stage.settle()
        await stage.step()
        stage.say(Credit(1, False))
        await stage.settle()
        while stage.device.plans:
            await stage.step()
        stats = [report.stats for report in stage.output if report.stats is not None]
        assert (stats[-1].live, stats[-1].paused, stats[-1].in_flight) == (1, 1, 0)

    perform(body)


def test_a_trace_begins_before_the_admission_that_arrives_with_it():
    async def body(stage: Stage) -> None:
        stage.say(StartTrace(), admit(1))
        await stage.settle()
        stage.say(StopTrace())
        await stage.settle()
        parts = [report.trace for report in stage.output if report.trace is not None]
        spans = [e for part in parts for e in part.events if isinstance(e, TraceSpan)]
        assert [s.requests for s in spans if s.name == "admit"] == [(1,)]

    perform(body)
