"""The engine core in a thread: scheduler and executor, with a loop of their own.

The core's loop is apart from the front end's, so that a thousand readers' wake-ups
never stand between the device and its next plan. The front end sees two addresses:
orders in, reports out.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from ..gpu.grammar import Grammars, Spelling
from ..gpu.runner import ModelRunner
from ..mailbox import (
    Address,
    LoopInbox,
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
)
from ..protocol.core import CoreReport, StopCore
from ..protocol.errors import Failure, InvalidRequest
from .blocking import in_thread
from .executor import Executor
from .orders import Order
from .restarts import RestartLimit
from .scheduler import Event, Scheduler
from .scheduling.settings import PlannerSettings
from .stacks import own_stacks
from .switching import Switching

log = logging.getLogger("legato.core")

LEAVE_S = 60.0


def no_spelling() -> Spelling:
    """Stand for a vocabulary where there is none.

    Raises:
        InvalidRequest: Always.
    """
    raise InvalidRequest("this engine has no vocabulary for it", field="grammar")


class CoreSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a core is made of; with picklable functions it can cross processes.

    Args:
        build: Makes the runner, in the device thread.
        planner: For the planner.
        spell: Reads the vocabulary, if a grammar asks for it.
        max_orders: Most orders that wait. Urgent ones have a lane of four times that:
            a request can be cancelled, paused and resumed before the core looks.
        restart_intensity: Devices rebuilt in the period below.
        restart_period_s: The period.
    """

    build: Callable[[], ModelRunner]
    planner: PlannerSettings
    spell: Callable[[], Spelling] = no_spelling
    max_orders: int = 2048
    restart_intensity: int = 3
    restart_period_s: float = 60.0

    def inbox(self) -> LoopInbox[Event]:
        """A scheduler's inbox."""
        return LoopInbox(
            "scheduler", self.max_orders, urgent_capacity=4 * self.max_orders
        )

    def scheduler(
        self, inbox: LoopInbox[Event], reports: Address[CoreReport]
    ) -> Scheduler:
        """A scheduler that starts executors as it needs them."""
        grammars = Grammars(self.spell)

        def build() -> ModelRunner:
            runner = self.build()
            runner.equip(grammars)
            return runner

        def start_device() -> Executor:
            return Executor(build, inbox.address(), self.planner.depth)

        limit = RestartLimit(self.restart_intensity, self.restart_period_s)
        return Scheduler(
            inbox, reports, start_device, self.planner, limit, grammars=grammars
        )


class Core(Protocol):
    """A core, wherever it runs; used in the front end's loop alone."""

    async def start(self) -> Address[Order]:
        """Start it and return where its orders go; limits or a failure will follow.

        Raises:
            EngineFailed: It could not be started.
        """
        ...

    def stop(self) -> None:
        """Ask it to end. Idempotent."""
        ...

    async def interrupt(self, failure: Failure) -> bool:
        """End it at once, because it hangs; it is then reported as lost.

        What it was doing goes to the log.

        Args:
            failure: What it is lost by.

        Returns:
            Whether it can be ended at all.
        """
        ...

    async def join(self) -> None:
        """Wait until it and its device have left. Idempotent."""
        ...


class ThreadCore:
    """A core in this process.

    Args:
        spec: What it is made of.
        reports: The front end's inbox.
    """

    def __init__(self, spec: CoreSpec, reports: Address[CoreReport]) -> None:
        self._spec = spec
        self._reports = reports
        self._inbox = spec.inbox()
        self._orders = self._inbox.address()
        self._switching = Switching()
        self._thread = threading.Thread(
            target=self._run, name="legato-core", daemon=True
        )

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    async def start(self) -> Address[Order]:
        """Start the thread."""
        self._switching.shorten()
        self._thread.start()
        return self._orders

    def stop(self) -> None:
        """Ask it to end. Idempotent."""
        try:
            self._orders.put_urgent(StopCore())
        except MailboxFull:
            self._inbox.finish()  # it stops at the end of its orders
        except (MailboxBroken, MailboxClosed):
            pass  # it has ended by itself

    async def interrupt(self, failure: Failure) -> bool:
        """Log where it stands; a thread cannot be ended."""
        log.error("it cannot be killed; every thread stands here:\n%s", own_stacks())
        return False

    async def join(self) -> None:
        """Wait until it and its device have left. Idempotent."""
        if self._thread.ident is not None:
            await in_thread(lambda: self._thread.join(LEAVE_S))
            if self._thread.is_alive():
                log.error("the device hangs; its thread is left behind")
        self._switching.restore()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                scheduler = self._spec.scheduler(self._inbox, self._reports)
                runner.run(scheduler.run())
        except BaseException as error:
            self._inbox.close()
            try:
                self._reports.put_nowait(CoreReport(lost=Failure.of(error)))
            except (MailboxBroken, MailboxClosed):
                pass  # the front end has left already


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the fastest event loop this platform has."""
    if sys.platform != "win32":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
