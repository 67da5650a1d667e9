"""One connection of Responses WebSocket mode: its reader, its lanes, its end.

The reader never waits for anything but the client: lanes run in tasks of their own, and
one task writes.
"""

import time
import uuid

import anyio
from anyio.abc import TaskGroup

from ...protocol.openai.refusal import Refusal
from ...protocol.openai.response_events import ResponseEvents, error_event
from ...protocol.openai.responses import (
    check_kind,
    open_envelope,
    read_cancel,
    read_create,
)
from ..backend import Backend
from ..gate import Gate
from ..judgement import check_model, refusal_of
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .job import Job
from .lane import Lane, Lanes
from .outbox import Outbox
from .stall import StallWatch

TOO_BIG = 1009
POLICY = 1008


class Session:
    """A connection.

    Args:
        socket: The client's, accepted.
        engine: Answers.
        gate: Lets responses in.
        settings: Limits.
        tenant: Whose API key it carries; "" leaves that to each request.
    """

    def __init__(
        self,
        socket: Socket,
        engine: Backend,
        gate: Gate,
        settings: ServeSettings,
        *,
        tenant: str,
    ) -> None:
        self._socket = socket
        self._engine = engine
        self._gate = gate
        self._settings = settings
        self._tenant = tenant
        watch = StallWatch(settings.send_deadline_s, self._give_up)
        self._outbox = Outbox(socket, settings.outbox_entries, watch)
        self._lanes = Lanes(settings.max_lanes, settings.max_in_flight)
        self._end = (1000, "")
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        with self._scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                await self._read(group)
                self._scope.cancel()
        await self._socket.close(*self._end)

    async def _write(self) -> None:
        await self._outbox.run()
        self._scope.cancel()

    def _give_up(self) -> None:
        wait_s = self._settings.send_deadline_s
        self._end = (POLICY, f"nothing was read for {wait_s:g} s")
        self._scope.cancel()

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

    def _take(self, frame: str | bytes, group: TaskGroup) -> bool:
        """Act on a message; False if even an error cannot be told any more."""
        stream_id: str | None = None
        try:
            if isinstance(frame, bytes):
                raise Refusal(
                    400, "binary_frame", "this socket speaks JSON in text messages"
                )
            data = frame.encode()
            envelope = open_envelope(data)
            stream_id = envelope.stream_id
            if check_kind(envelope.type) == "response.create":
                self._create(data, group)
            else:
                self._cancel(data)
        except Exception as error:
            return self._outbox.put_error(error_event(refusal_of(error), stream_id))
        return True

    def _create(self, data: bytes, group: TaskGroup) -> None:
        with self._gate.admit():
            create = read_create(data, self._engine.default_params())
        check_model(create.generation.model, self._engine.name)
        name = f"resp_{uuid.uuid4().hex}"
        events = ResponseEvents(
            name,
            self._engine.name,
            int(time.time()),
            stream_id=create.stream_id,
            echo=create.echo,
            token_bytes=self._engine.token_bytes,
            clock=time.time,
        )
        request = create.generation.of_tenant(self._tenant)
        job = Job(name, request, events, create.stream_id)
        if lane := self._lanes.put(create.stream_id, job):
            group.start_soon(self._run_lane, lane)

    def _cancel(self, data: bytes) -> None:
        request = read_cancel(data)
        if request.response_id is None:
            self._lanes.cancel_lane(request.stream_id)
        else:
            self._lanes.cancel_response(request.response_id)

    async def _run_lane(self, lane: Lane) -> None:
        while job := self._lanes.next(lane):
            await job.run(self._engine, self._gate, self._outbox)
