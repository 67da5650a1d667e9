"""Cores that break once, in this process or in a child; built by name from there."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from legato.actors import core_child
from legato.actors.executor import Completion, Executor
from legato.actors.instruments import Instruments
from legato.actors.scheduler import Scheduler
from legato.actors.scheduling.planner import Planner
from legato.gpu.fake import FakeRunner, FakeStep

Place = tuple[Any, str, int]


class Fault(Exception):
    """Nobody thought of it."""


def break_once(owner: Any, name: str, at: int) -> Callable[[], None]:
    """Have a method raise at one of its calls, from 0, and work at all others.

    Returns:
        Takes the fault back, if it has not struck.
    """
    original, calls = getattr(owner, name), 0

    def broken(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= at:
            return original(*arguments, **options)
        setattr(owner, name, original)
        raise Fault(f"{name} broke")

    setattr(owner, name, broken)
    return lambda: setattr(owner, name, original)


PLACES: dict[str, Place] = {
    "scheduler admits": (Planner, "admit", 2),
    "scheduler plans": (Planner, "plan", 5),
    "scheduler commits": (Planner, "commit", 5),
    "scheduler cancels": (Planner, "cancel", 0),
    "scheduler pauses": (Planner, "credit", 0),
    "scheduler reports": (Scheduler, "_report", 9),
    "scheduler measures": (Instruments, "note_step", 3),
    "executor takes": (Executor, "_waiting", 0),
    "completion takes": (Completion, "post", 5),
    "device launches": (FakeRunner, "launch", 5),
    "device steps": (FakeStep, "wait", 5),
    "orders are passed on": (sys.modules.get("__main__", core_child), "hand_over", 2),
}

# The fake's own is two; with one there is no thread that waits.
LAUNCH_DEPTHS = {"device steps": 1}


def build(place: str, marker: str) -> FakeRunner:
    """Make a runner in a core that breaks at a place; the next core is whole."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        break_once(*PLACES[place])
    return FakeRunner(step_s=0.0005, launch_depth=LAUNCH_DEPTHS.get(place, 2))


def build_unclosable(marker: str) -> FakeRunner:
    """Make a runner that fails at its fifth step, and then cannot be freed."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return FakeRunner()
    break_once(FakeRunner, "close", 0)
    return FakeRunner(fail_at=5)


HANG_AT = 8


class HangingStep:
    """A step that a device never ends, unless the gate is opened."""

    def __init__(self, step: FakeStep, gate: threading.Event) -> None:
        self._step = step
        self._gate = gate

    def wait(self) -> Any:
        if self._step.result.step == HANG_AT:
            self._gate.wait()
        return self._step.wait()


class HangingRunner(FakeRunner):
    """A device that hangs in one step: as it is launched, or as it is waited for."""

    def __init__(self, place: str, gate: threading.Event) -> None:
        super().__init__(launch_depth=1 if place == "the only thread" else 2)
        self._place = place
        self._gate = gate

    def launch(self, plan: Any) -> Any:
        if plan.step == HANG_AT and self._place == "launching":
            self._gate.wait()
        step = super().launch(plan)
        return step if self._place == "launching" else HangingStep(step, self._gate)


def build_hanging(place: str, marker: str) -> FakeRunner:
    """Make a runner that hangs, or a core that does; the next one is whole."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return FakeRunner()
    gate = threading.Event()
    if place != "planning":
        return HangingRunner(place, gate)
    plan, calls = Planner.plan, 0

    def hang(planner: Planner, now_s: float) -> Any:
        nonlocal calls
        calls += 1
        if calls > HANG_AT:
            gate.wait()
        return plan(planner, now_s)

    Planner.plan = hang  # pyright: ignore[reportAttributeAccessIssue]
    return FakeRunner()
