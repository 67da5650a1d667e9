"""The executor: one thread that owns the device.

It takes plans and publishes results. It never waits for the host when a plan is
waiting, and it knows nothing of requests or text. It alone touches the runner.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from ..gpu.runner import ModelRunner, StepHandle
from ..mailbox import MailboxBroken, MailboxClosed, ThreadInbox
from ..protocol.errors import Failure, InvalidModel, InvalidSetting
from ..protocol.steps import DeviceFailed, DeviceReady, StepPlan, StepResult

log = logging.getLogger("legato.device")

Event = DeviceReady | DeviceFailed | StepResult


class EventSink(Protocol):
    """Where the executor's events go: an address that threads can use."""

    def put_blocking(self, item: Event) -> None:
        """Put an event, waiting for room."""
        ...


class Executor:
    """The device thread.

    Args:
        build: Makes the runner; called in the thread.
        events: Where ``DeviceReady``, every ``StepResult`` and at most one
            ``DeviceFailed`` go.
        depth: Plans that may be under way: running and waiting together.
    """

    def __init__(
        self, build: Callable[[], ModelRunner], events: EventSink, depth: int
    ) -> None:
        self._build = build
        self._events = events
        self._inbox = ThreadInbox[StepPlan]("executor", depth)
        self._plans = self._inbox.address()
        self._reporting = threading.Lock()
        self._failed = False
        self._thread = threading.Thread(
            target=self._run, name="legato-device", daemon=True
        )

    def start(self) -> None:
        """Start the thread; it builds the runner first."""
        self._thread.start()

    def post(self, plan: StepPlan) -> None:
        """Give the device its next plan.

        Raises:
            MailboxFull: More plans than the depth.
            MailboxBroken: The device has failed; its ``DeviceFailed`` is on its way.
        """
        self._plans.put_nowait(plan)

    def close(self) -> None:
        """Let the plans under way finish, then free the device and leave."""
        self._plans.close()

    def join(self) -> None:
        """Block until the thread has left."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        failed: DeviceFailed | None = None
        try:
            runner = self._build()
            ready = DeviceReady(runner.limits, runner.memory_report)
        except BaseException as error:
            fatal = isinstance(error, InvalidModel | InvalidSetting)
            failed = DeviceFailed(Failure.of(error), fatal)
        else:
            self._report(ready)
            try:
                self._step(runner)
            except BaseException as error:
                failed = DeviceFailed(Failure.of(error))
            try:
                runner.close()
            except BaseException as error:
                # Nobody can help it, and whoever waits must not wait for ever.
                log.exception("the device cannot be freed")
                failed = failed or DeviceFailed(Failure.of(error))
        # Last of all: by then the device's memory is free, and no result of this
        # thread can follow its failure.
        self._inbox.close()
        if failed is not None:
            self._report(failed)

    def _step(self, runner: ModelRunner) -> None:
        if runner.launch_depth == 1:
            for plan in self._waiting():
                self._report(runner.launch(plan).wait())
            return
        completion = Completion(self._report, runner.launch_depth)
        try:
            for plan in self._waiting():
                completion.post(runner.launch(plan))
        finally:
            completion.close()

    def _waiting(self) -> Iterator[StepPlan]:
        while True:
            try:
                yield self._inbox.get_blocking()
            except MailboxClosed:
                return

    def _report(self, event: Event) -> None:
        with self._reporting:
            if self._failed:
                return
            self._failed = isinstance(event, DeviceFailed)
        try:
            # The ordinary lane, which waits: results must neither overtake each other
            # nor be lost to a flood of urgent orders.
            self._events.put_blocking(event)
        except (MailboxBroken, MailboxClosed):
            # The scheduler is gone, and with it whoever wanted to know.
            pass


class Completion:
    """The thread that waits for launched steps and publishes their results.

    Launching and waiting are two threads because a plan that arrives while a step
    runs must be queued on the device before that step ends; one thread would notice it
    only afterwards, and the device would stand still meanwhile.

    Args:
        report: Takes each result, or the one failure.
        depth: Steps in flight: one waited for, the others queued.
    """

    def __init__(self, report: Callable[[Event], None], depth: int) -> None:
        self._report = report
        self._inbox = ThreadInbox[StepHandle]("completion", depth - 1)
        self._handles = self._inbox.address()
        self._thread = threading.Thread(
            target=self._run, name="legato-completion", daemon=True
        )
        self._thread.start()

    def post(self, handle: StepHandle) -> None:
        """Hand over a launched step; blocks while the depth is reached."""
        try:
            self._handles.put_blocking(handle)
        except MailboxBroken:
            # The failure was reported; the scheduler will close the executor.
            pass

    def close(self) -> None:
        """Wait for the steps in flight, then end the thread."""
        self._handles.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                self._report(self._inbox.get_blocking().wait())
        except MailboxClosed:
            pass
        except BaseException as error:
            self._report(DeviceFailed(Failure.of(error)))
        finally:
            self._inbox.close()
