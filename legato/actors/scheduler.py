"""The scheduler: the actor that owns every sequence, through the pure planner.

It keeps the device's mailbox full, turns results into output, and never awaits a
client. It knows no text and no torch. When the device dies it has it rebuilt and the
planner goes on from the tokens already emitted.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from ..gpu.grammar import Grammars
from ..mailbox import Address, LoopInbox, MailboxBroken, MailboxClosed
from ..protocol.amend import Amend
from ..protocol.core import CoreReport, StopCore, TellStats, WhenIdle
from ..protocol.errors import EngineClosed, Failure, LegatoError
from ..protocol.requests import Admit, Cancel, Credit, FinishReason
from ..protocol.steps import DeviceFailed, DeviceReady, StepPlan, StepResult
from ..protocol.tracing import StartTrace, StopTrace
from .instruments import Instruments
from .orders import Order, SetBatching
from .preparation import Preparation, Prepared, unstarted
from .restarts import RestartLimit
from .scheduling.planner import Planner
from .scheduling.settings import PlannerSettings

STATS_PERIOD_S = 0.1


Event = Order | StepResult | DeviceReady | DeviceFailed | Prepared


class Device(Protocol):
    """What the scheduler needs of an executor."""

    def start(self) -> None:
        """Begin building the runner."""
        ...

    def post(self, plan: StepPlan) -> None:
        """Queue a plan."""
        ...

    def close(self) -> None:
        """Finish what is queued and leave."""
        ...

    def join(self) -> None:
        """Block until it has left."""
        ...


class Scheduler:
    """The scheduling actor; all its methods run in the core's loop.

    Args:
        inbox: Orders from the front end and events from the device.
        reports: Where output, stats and news of the device go.
        start_device: Makes an executor that answers into the inbox.
        settings: For the planner.
        restarts: How often the device may be rebuilt.
        grammars: Shared with the device.
    """

    def __init__(
        self,
        inbox: LoopInbox[Event],
        reports: Address[CoreReport],
        start_device: Callable[[], Device],
        settings: PlannerSettings,
        restarts: RestartLimit,
        *,
        grammars: Grammars,
    ) -> None:
        self._inbox = inbox
        self._reports = reports
        self._start_device = start_device
        self._settings = settings
        self._restarts = restarts
        self._preparation = Preparation(grammars, inbox.address())
        self._planner: Planner | None = None
        self._device: Device | None = None
        self._in_flight = 0
        self._instruments = Instruments()
        self._stats_at_s = 0.0
        self._activity = (False, False)
        self._idle_asked: list[int] = []
        self._stopping = False

    async def run(self) -> None:
        """Schedule until told to stop; then end what lives and free the device."""
        device = self._device = self._start_device()
        device.start()
        self._instruments.lag.start()
        try:
            while not self._stopping:
                events = await self._events()
                self._instruments.note_turn(events)
                for event in events:
                    self._handle(event)
                self._feed()
                self._report()
            self._fail_what_lives()
        except MailboxClosed:
            self._fail_what_lives()  # nobody can order anything any more
        finally:
            # After a failure nothing is said of the streams: the next core has them.
            self._instruments.lag.stop()
            self._inbox.close()
            self._preparation.close()
            self._close_device()

    def _close_device(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device.join()

    async def _events(self) -> list[Event]:
        planner = self._planner
        now_s = time.perf_counter()
        wake_s = planner.wake_at(now_s) if planner else None
        if wake_s is None:
            events = await self._inbox.drain()
        else:
            try:
                async with asyncio.timeout(max(0.0, wake_s - now_s)):
                    events = await self._inbox.drain()
            except TimeoutError:
                return []
        # An order to cancel may overtake, in the urgent lane, the admission it means.
        return sorted(events, key=_rank) if len(events) > 1 else events

    def _handle(self, event: Event) -> None:
        now_s = time.perf_counter()
        match event:
            case StepResult():
                self._commit(event)
            case Admit():
                if not self._preparation.hold(event):
                    self._admit(event, now_s)
            case Prepared():
                self._end_preparation(event, now_s)
            case Cancel():
                self._cancel(event, now_s)
            case Credit():
                if not self._preparation.credit(event):
                    self._running.credit(event, now_s)
            case Amend():
                if not self._preparation.amend(event):
                    self._running.amend(event)
            case SetBatching():
                self._running.set_batching(event.batching, now_s)
                self._stats_at_s = 0.0  # whoever changed it wants to see it
            case TellStats():
                self._stats_at_s = 0.0
            case DeviceReady():
                self._open(event)
            case DeviceFailed():
                self._recover(event, now_s)
            case WhenIdle():
                self._idle_asked.append(event.token)
            case StartTrace() | StopTrace():
                self._instruments.obey(event)
            case StopCore():
                self._stopping = True
        if self._planner is not None:
            self._instruments.gauge.note_work(self._planner.has_work, now_s)

    @property
    def _running(self) -> Planner:
        assert self._planner is not None, "orders come only after the device is ready"
        return self._planner

    def _open(self, ready: DeviceReady) -> None:
        if self._planner is None:
            self._planner = Planner(ready.limits, self._settings)
        self._send(CoreReport(limits=ready.limits, memory=ready.memory))

    def _admit(self, request: Admit, now_s: float) -> None:
        try:
            self._running.admit(request, now_s)
        except LegatoError as error:
            self._refuse(request, Failure.of(error))
        self._instruments.note_admission(request.request, now_s)

    def _refuse(self, request: Admit, failure: Failure) -> None:
        self._send(CoreReport(output=unstarted(request, FinishReason.ERROR, failure)))

    def _end_preparation(self, prepared: Prepared, now_s: float) -> None:
        released = self._preparation.release(prepared.request)
        if released is None:
            return
        request, granted = released
        if prepared.failure is not None:
            self._refuse(request, prepared.failure)
            return
        self._admit(request, now_s)
        if not granted:
            self._running.credit(Credit(request.request, False), now_s)

    def _cancel(self, order: Cancel, now_s: float) -> None:
        released = self._preparation.release(order.request)
        if released is None:
            self._running.cancel(order, now_s)
        else:
            reason = FinishReason(order.reason)
            self._send(CoreReport(output=unstarted(released[0], reason)))

    def _commit(self, result: StepResult) -> None:
        self._in_flight -= 1
        with self._instruments.planning("commit"):
            output = self._running.commit(result, time.perf_counter())
        self._instruments.note_step(result, output, self._in_flight)
        if output.tokens or output.ended or output.scored:
            self._send(CoreReport(output=output))

    def _feed(self) -> None:
        """Plan until the device has a step running and the next one waiting."""
        if self._planner is None or self._device is None:
            return
        while self._in_flight < self._settings.depth:
            with self._instruments.planning("plan"):
                plan = self._planner.plan(time.perf_counter())
            if plan is None:
                break
            try:
                self._device.post(plan)
            except MailboxBroken:
                break  # its DeviceFailed is on the way, and the planner will forget
            self._in_flight += 1
            self._instruments.note_plan(self._in_flight)

    def _recover(self, failed: DeviceFailed, now_s: float) -> None:
        self._close_device()
        self._in_flight = 0
        self._instruments.gauge.forget_plans()
        if self._planner is not None:
            self._planner.lose_device(now_s)
        if failed.fatal or not self._restarts.allow(now_s):
            self._device = None
            output = None
            if self._planner is not None:
                output = self._planner.fail_all(failed.failure, now_s)
            # In one report: whoever sees a stream fail sees the engine failed.
            self._send(CoreReport(output=output, failure=failed.failure))
            self._stopping = True
            return
        self._device = self._start_device()
        self._device.start()

    def _report(self) -> None:
        """Pass on endings without a step, and a snapshot now and then."""
        if self._planner is None:
            return
        now_s = time.perf_counter()
        output = self._planner.take_output(now_s)
        if output is not None:
            self._send(CoreReport(output=output))
        live = self._planner.num_live > 0 or self._in_flight > 0
        live = live or len(self._preparation) > 0
        activity = (live, self._in_flight > 0)
        came_to_rest = activity < self._activity or (not live and self._idle_asked)
        due = bool(came_to_rest) or now_s - self._stats_at_s >= STATS_PERIOD_S
        trace = self._instruments.take_trace(now=due)
        if due:
            self._stats_at_s = now_s
            idle = () if live else tuple(self._idle_asked)
            stats = self._instruments.snapshot(
                self._planner.stats(now_s), self._restarts.num_restarts
            )
            self._send(CoreReport(stats=stats, idle=idle, trace=trace))
            self._idle_asked = self._idle_asked if live else []
        elif trace is not None:
            self._send(CoreReport(trace=trace))
        self._activity = activity

    def _send(self, report: CoreReport) -> None:
        try:
            self._reports.put_nowait(report)
        except MailboxBroken:
            self._stopping = True  # nobody is left to schedule for

    def _fail_what_lives(self) -> None:
        if self._planner is not None:
            failure = Failure.of(EngineClosed("the engine was shut down"))
            output = self._planner.fail_all(failure, time.perf_counter())
            self._send(CoreReport(output=output))
            for request in self._preparation:
                self._refuse(request, failure)


def _rank(event: Event) -> int:
    """Results first, since they free what admissions need; then admissions.

    Before all of them the start of a trace, which was asked for before they came.
    """
    if isinstance(event, StartTrace | StepResult | DeviceReady | DeviceFailed):
        return 0
    return 1 if isinstance(event, Admit | Prepared) else 2
