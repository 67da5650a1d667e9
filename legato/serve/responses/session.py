"""One connection of Responses WebSocket mode: its reader, its lanes, its end.

The reader never waits for anything but the client: lanes run in tasks of their own, and
one task writes.
"""

import asyncio

import anyio
from anyio.abc import TaskGroup

from ...protocol.openai.extensions import (
    AUTHENTICATE,
    CREATE,
    Envelope,
    ResumeFrame,
    check_kind,
    note,
    open_envelope,
    read_authenticate,
    read_control,
)
from ...protocol.openai.refusal import LOAD, Refusal
from ...protocol.openai.response_events import error_event
from ...protocol.openai.responses import read_frame
from ..backend import Backend
from ..gate import Gate
from ..judgement import refusal_of
from ..keys import KeyRing
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .codec import Codec
from .control import Control
from .job import Job
from .lane import Lane, Lanes
from .making import make_job
from .outbox import Outbox
from .recall import Recall
from .registry import Registry
from .replay import EventLog, Reader
from .run import Run
from .stall import StallWatch

TOO_BIG = 1009
POLICY = 1008


class Session:
    """A connection.

    Args:
        socket: The client's, accepted.
        codec: How frames travel on it.
        engine: Answers.
        gate: Lets responses in.
        registry: Keeps what outlives the connection.
        keys: Of those who may come in.
        settings: Limits.
        tenant: Whose API key it carries; "" leaves that to each request.
    """

    def __init__(
        self,
        socket: Socket,
        codec: Codec,
        engine: Backend,
        gate: Gate,
        registry: Registry,
        keys: KeyRing,
        settings: ServeSettings,
        *,
        tenant: str,
    ) -> None:
        self._socket = socket
        self._codec = codec
        self._engine = engine
        self._gate = gate
        self._registry = registry
        self._keys = keys
        self._settings = settings
        self._tenant = tenant
        watch = StallWatch(settings.send_deadline_s, self._give_up)
        self._outbox = Outbox(socket, settings.outbox_entries, watch, codec.write)
        self._lanes = Lanes(settings.max_lanes, settings.max_in_flight)
        self._control = Control(self._lanes, registry, tenant)
        self._recall = Recall(registry.store, tenant)
        self._num_resuming = 0
        self._is_old = False
        self._end = (1000, "")
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        loop = asyncio.get_running_loop()
        ageing = loop.call_later(self._settings.max_connection_s, self._grow_old)
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._write)
                    await self._read(group)
                    self._scope.cancel()
        finally:
            ageing.cancel()
        await self._socket.close(*self._end)

    async def _write(self) -> None:
        await self._outbox.run()
        self._scope.cancel()

    def _give_up(self) -> None:
        wait_s = self._settings.send_deadline_s
        self._end = (POLICY, f"nothing was read for {wait_s:g} s")
        self._scope.cancel()

    def _grow_old(self) -> None:
        """Take no new responses; close once those under way have ended."""
        self._is_old = True
        self._outbox.put_error(error_event(self._too_old()))
        self._end_if_idle()

    def _too_old(self) -> Refusal:
        minutes = self._settings.max_connection_s / 60
        return Refusal(
            400,
            "websocket_connection_limit_reached",
            f"a connection lasts {minutes:g} minutes; open another to go on",
        )

    def _end_if_idle(self) -> None:
        if self._is_old and self._lanes.is_idle:
            self._end = (1000, "the connection has reached its age limit")
            self._outbox.finish()

    async def _read(self, group: TaskGroup) -> None:
        limit = self._settings.max_frame_bytes
        try:
            while True:
                frame = await self._socket.receive()
                # Characters are at least bytes, so most frames need no second look.
                if len(frame) > limit or (
                    isinstance(frame, str)
                    and len(frame) > limit // 4
                    and len(frame.encode()) > limit
                ):
                    self._end = (TOO_BIG, f"a message has at most {limit} bytes")
                    return
                if not self._take(frame, group):
                    self._end = (POLICY, "too many errors are unread")
                    return
        except SocketGone:
            return

    def _take(self, message: str | bytes, group: TaskGroup) -> bool:
        """Act on a message; False if even an error cannot be told any more."""
        envelope = Envelope()
        try:
            data = self._codec.read(message)
            envelope = open_envelope(data)
            kind = check_kind(envelope.type)
            if kind == CREATE:
                self._create(data, group)
            elif kind == AUTHENTICATE:
                self._authenticate(data)
            else:
                request = read_control(kind, data)
                if isinstance(request, ResumeFrame):
                    self._begin_resume(request, group)
                elif told := self._control.obey(kind, request):
                    return self._outbox.put_error(told)
        except Exception as error:
            return self._outbox.put_error(self._error(error, envelope))
        return True

    def _error(self, error: Exception, envelope: Envelope) -> str:
        refusal = refusal_of(error)
        return error_event(refusal, envelope.stream_id, envelope.response_id)

    def _create(self, data: bytes, group: TaskGroup) -> None:
        if self._is_old:
            raise self._too_old()
        with self._gate.admit():
            create = read_frame(data, self._engine.default_params())
        job = make_job(create, self._engine, self._recall, self._tenant)
        if lane := self._lanes.put(create.stream_id, job):
            group.start_soon(self._run_lane, lane)

    def _authenticate(self, data: bytes) -> None:
        key = read_authenticate(data)
        if self._keys and self._keys.check_key(key) != self._tenant:
            raise Refusal(
                400,
                "invalid_value",
                "this connection came with another API key; open another for this one",
                param="api_key",
            )
        self._outbox.put_error(note("session.authenticated"))

    async def _run_lane(self, lane: Lane) -> None:
        while job := self._lanes.next(lane):
            with self._gate.hold():
                await self._run_job(job)
                if self._gate.is_closed:
                    await self._outbox.emptied()
            # Another connection may have taken it over; the lane stays in order.
            await job.finished.wait()
        self._end_if_idle()

    async def _run_job(self, job: Job) -> None:
        if not job.create.resumable:
            await job.run(self._engine, self._gate, self._outbox)
            return
        try:
            run = self._registry.begin(job)
        except Refusal as refusal:
            job.finished.set()
            await self._outbox.put([error_event(refusal, job.create.stream_id)])
            return
        await self._follow(run, run.follow(-1))

    def _begin_resume(self, request: ResumeFrame, group: TaskGroup) -> None:
        if self._num_resuming >= self._settings.max_in_flight:
            raise Refusal(
                429,
                "too_many_responses",
                f"{self._num_resuming} responses are resumed on this socket, the most "
                "there may be",
                kind=LOAD,
            )
        self._num_resuming += 1
        group.start_soon(self._resume, request)

    async def _resume(self, request: ResumeFrame) -> None:
        name = request.response_id or ""
        after = -1 if request.starting_after is None else request.starting_after
        try:
            run = self._registry.find(name, self._tenant)
            if run is None:
                await self._replay(name, after)
                return
            reader = run.follow(after)
            try:
                if request.credit:
                    run.job.grant(request.credit)
                status = run.job.events.object["status"]
                await self._outbox.put([resumed(name, after, status)])
            except BaseException:
                run.leave(reader)
                raise
            with self._gate.hold():
                await self._follow(run, reader)
                if self._gate.is_closed:
                    await self._outbox.emptied()
        except Refusal as refusal:
            await self._outbox.put([error_event(refusal, request.stream_id, name)])
        finally:
            self._num_resuming -= 1

    async def _replay(self, name: str, after: int) -> None:
        """Send the events of a response that has ended, from the store."""
        stored = await self._registry.store.get(name, self._tenant)
        if stored is None or stored.events is None:
            raise Refusal(
                404,
                "response_not_found",
                f"no response {name!r} can be resumed here",
                param="response_id",
            )
        reader = EventLog.restored(stored.events).read(after)
        await self._outbox.put([resumed(name, after, stored.status)])
        while frames := await reader.next():
            await self._outbox.put(frames)

    async def _follow(self, run: Run, reader: Reader) -> None:
        """Send a run's events up to its end, or until somebody takes over."""
        try:
            while frames := await reader.next():
                await self._outbox.put(frames)
        except Refusal as refusal:
            lane = run.job.create.stream_id
            await self._outbox.put([error_event(refusal, lane, run.job.name)])
        finally:
            run.leave(reader)


def resumed(name: str, after: int, status: str) -> str:
    """The event before a replay."""
    return note(
        "response.resumed", response_id=name, starting_after=after, status=status
    )
