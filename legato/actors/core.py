"""The engine core in a thread: scheduler and executor, with a loop of their own.

The core's loop is apart from the front end's, so that a thousand readers' wake-ups
never stand between the device and its next plan. The front end sees two addresses:
orders in, reports out.
"""

import asyncio
import sys
import threading
from collections.abc import Callable

from ..gpu.runner import ModelRunner
from ..mailbox import Address, LoopInbox, MailboxBroken, MailboxClosed
from ..protocol.core import CoreReport, StopCore
from ..protocol.errors import Failure
from .executor import Executor
from .restarts import RestartLimit
from .scheduler import Event, Order, Scheduler
from .scheduling.settings import PlannerSettings

MAX_ORDERS = 8192


class ThreadCore:
    """Scheduler and executor in this process.

    Args:
        build: Makes the runner, in the device thread.
        reports: The front end's inbox.
        settings: For the planner.
        restarts: How often the device may be rebuilt.
    """

    def __init__(
        self,
        build: Callable[[], ModelRunner],
        reports: Address[CoreReport],
        settings: PlannerSettings,
        restarts: RestartLimit,
    ) -> None:
        self._build = build
        self._reports = reports
        self._settings = settings
        self._restarts = restarts
        self._inbox = LoopInbox[Event]("scheduler", MAX_ORDERS)
        self._thread = threading.Thread(
            target=self._run, name="legato-core", daemon=True
        )

    def orders(self) -> Address[Order]:
        """Where the front end sends its orders."""
        return self._inbox.address()

    def start(self) -> None:
        """Start the thread; a report with limits or a failure will follow."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; may be called again."""
        try:
            self._inbox.address().put_urgent(StopCore())
        except (MailboxBroken, MailboxClosed):
            pass  # it has ended by itself

    def join(self) -> None:
        """Block until the core and its device have left."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._scheduler().run())
        except BaseException as error:
            self._inbox.close()
            try:
                self._reports.put_nowait(CoreReport(failure=Failure.of(error)))
            except (MailboxBroken, MailboxClosed):
                pass  # the front end has left already

    def _scheduler(self) -> Scheduler:
        def start_device() -> Executor:
            return Executor(self._build, self._inbox.address(), self._settings.depth)

        return Scheduler(
            self._inbox, self._reports, start_device, self._settings, self._restarts
        )


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the fastest event loop this platform has."""
    if sys.platform != "win32":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
