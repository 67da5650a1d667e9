"""The executor against scripted runners; results arrive in a plain thread's inbox."""

import threading
from dataclasses import dataclass, field

import pytest

from legato.actors.executor import Event, Executor
from legato.gpu.fake import FAKE_LIMITS, FakeRunner
from legato.mailbox import MailboxBroken, MailboxClosed, ThreadInbox
from legato.protocol.errors import InvalidModel
from legato.protocol.steps import (
    DeviceFailed,
    DeviceReady,
    RowSampling,
    RunnerLimits,
    SlotOpen,
    StepPlan,
    StepResult,
    StepRow,
)

GREEDY = RowSampling(temperature=0.0)


def plans(count: int) -> list[StepPlan]:
    """One sequence of a three-token prompt, then decodes."""
    opened = SlotOpen(0, GREEDY, 3, (0,))
    first = StepPlan(0, (StepRow(0, 0, (5, 6, 7), True),), (opened,))
    return [first] + [StepPlan(n, (), decodes=(0,)) for n in range(1, count)]


@dataclass
class HeldRunner:
    """A device whose steps end when the test says so."""

    launch_depth: int = 2
    limits: RunnerLimits = FAKE_LIMITS
    memory_report: str = "held"
    launched: "list[int]" = field(default_factory=list[int])
    launching: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(0)
    )
    ending: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    closed: bool = False
    fail_wait_at: int | None = None

    def equip(self, grammars: object) -> None:
        pass

    def launch(self, plan: StepPlan) -> "HeldStep":
        self.launched.append(plan.step)
        self.launching.release()
        return HeldStep(self, plan.step)

    def close(self) -> None:
        self.closed = True


@dataclass
class HeldStep:
    runner: HeldRunner
    step: int

    def wait(self) -> StepResult:
        self.runner.ending.acquire()
        if self.step == self.runner.fail_wait_at:
            raise RuntimeError("the step never ended well")
        return StepResult(self.step, ())


class Bench:
    """An executor with its results at hand."""

    def __init__(self, runner: object, depth: int = 4) -> None:
        self.events = ThreadInbox[Event]("events", 64)
        self.executor = Executor(
            lambda: runner,  # pyright: ignore[reportArgumentType, reportReturnType]
            self.events.address(),
            depth,
        )
        self.executor.start()

    def next(self) -> Event:
        return self.events.get_blocking(10)

    def end(self) -> None:
        self.executor.close()
        self.executor.join()


@pytest.mark.parametrize("launch_depth", [1, 2])
def test_results_come_one_a_plan_and_in_order(launch_depth: int):
    bench = Bench(FakeRunner(launch_depth=launch_depth))
    ready = bench.next()
    assert isinstance(ready, DeviceReady)
    assert ready.limits == FAKE_LIMITS
    for plan in plans(4):
        bench.executor.post(plan)
    results = [bench.next() for _ in range(4)]
    assert [r.step for r in results if isinstance(r, StepResult)] == [0, 1, 2, 3]
    bench.end()


def test_a_plan_that_comes_while_a_step_runs_is_launched_before_it_ends():
    runner = HeldRunner()
    bench = Bench(runner)
    bench.next()
    first, second, *_ = plans(2)
    bench.executor.post(first)
    assert runner.launching.acquire(timeout=10)
    bench.executor.post(second)
    assert runner.launching.acquire(timeout=10)
    assert runner.launched == [0, 1]
    runner.ending.release(2)
    assert [bench.next(), bench.next()] == [StepResult(0, ()), StepResult(1, ())]
    bench.end()


def test_closing_finishes_the_plans_under_way_and_frees_the_device():
    runner = HeldRunner()
    bench = Bench(runner)
    bench.next()
    for plan in plans(2):
        bench.executor.post(plan)
    bench.executor.close()
    runner.ending.release(2)
    bench.executor.join()
    assert [bench.next(), bench.next()] == [StepResult(0, ()), StepResult(1, ())]
    assert runner.closed


@pytest.mark.parametrize("launch_depth", [1, 2])
def test_a_launch_that_fails_is_reported_once_after_the_results(launch_depth: int):
    bench = Bench(FakeRunner(launch_depth=launch_depth, fail_at=2))
    bench.next()
    for plan in plans(3):
        bench.executor.post(plan)
    events = [bench.next() for _ in range(3)]
    assert [e.step for e in events if isinstance(e, StepResult)] == [0, 1]
    assert isinstance(events[2], DeviceFailed)
    assert "told to fail at step 2" in events[2].failure.message
    assert not events[2].fatal
    bench.end()
    assert bench.events.drain_nowait() == []


def test_a_wait_that_fails_is_reported_once():
    runner = HeldRunner(fail_wait_at=0)
    bench = Bench(runner)
    bench.next()
    bench.executor.post(plans(1)[0])
    runner.ending.release()
    failed = bench.next()
    assert isinstance(failed, DeviceFailed)
    assert "never ended well" in failed.failure.message
    bench.end()
    assert runner.closed
    assert bench.events.drain_nowait() == []


def test_a_failed_device_takes_no_more_plans():
    bench = Bench(FakeRunner(launch_depth=1, fail_at=0))
    bench.next()
    bench.executor.post(plans(1)[0])
    assert isinstance(bench.next(), DeviceFailed)
    bench.executor.join()
    with pytest.raises((MailboxBroken, MailboxClosed)):
        bench.executor.post(plans(2)[1])


def test_a_bad_model_is_fatal_and_keeps_its_kind():
    def build() -> FakeRunner:
        raise InvalidModel("weights.gguf is cut short; copy it again")

    events = ThreadInbox[Event]("events", 8)
    executor = Executor(build, events.address(), 2)
    executor.start()
    failed = events.get_blocking(10)
    assert isinstance(failed, DeviceFailed)
    assert failed.fatal
    assert isinstance(failed.failure.error(), InvalidModel)
    executor.close()
    executor.join()


def test_no_thread_is_left_behind():
    before = threading.active_count()
    bench = Bench(FakeRunner())
    bench.next()
    bench.executor.post(plans(1)[0])
    bench.next()
    bench.end()
    assert threading.active_count() == before
