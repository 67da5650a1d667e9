"""One connection of the AI SDK's WebSocket transport: requests side by side.

Answers outlive it: a client that comes back on another connection reads on.
"""

from anyio.abc import TaskGroup

from ...protocol.ai_sdk import (
    Ask,
    Resume,
    check_kind,
    open_envelope,
    read_resume,
    read_send,
)
from ...protocol.ai_sdk_stream import Frames
from ...protocol.openai.refusal import LOAD, Refusal
from ..backend import Backend
from ..connection import Connection, Misused
from ..gate import Gate
from ..judgement import refusal_of
from ..settings import ServeSettings
from ..socket import Socket
from .chats import Chats
from .turn import Turn


class Session:
    """A connection.

    Args:
        socket: The client's, accepted.
        engine: Answers.
        gate: Lets requests in.
        settings: Limits.
        chats: Keeps the answers.
        tenant: Whose API key it carries; "" where none is needed.
    """

    def __init__(
        self,
        socket: Socket,
        engine: Backend,
        gate: Gate,
        settings: ServeSettings,
        chats: Chats,
        *,
        tenant: str,
    ) -> None:
        self._connection = Connection(socket, settings)
        self._engine = engine
        self._gate = gate
        self._max_requests = settings.max_lanes
        self._chats = chats
        self._tenant = tenant
        self._requests: dict[str, Request] = {}

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        await self._connection.run(self._take)

    async def _take(self, frame: str | bytes, group: TaskGroup) -> None:
        if isinstance(frame, bytes):
            raise Misused("this socket speaks JSON in text messages")
        data = frame.encode()
        try:
            envelope = open_envelope(data)
        except Exception as error:
            # The protocol has no error that belongs to no request.
            raise Misused(refusal_of(error).message) from None
        name: str = envelope.requestId
        if envelope.type == "abort":
            if request := self._requests.get(name):
                request.abort()
            return
        if name in self._requests:
            raise Misused("this requestId is in use")
        frames = Frames(name)
        try:
            request = self._read(check_kind(envelope.type), data, frames)
        except Exception as error:
            await self._connection.outbox.put([frames.error(refusal_of(error))])
            return
        self._requests[name] = request
        group.start_soon(self._serve, name, request)

    def _read(self, kind: str, data: bytes, frames: Frames) -> "Request":
        if len(self._requests) >= self._max_requests:
            raise Refusal(
                429,
                "too_many_requests",
                f"{self._max_requests} requests are under way on this socket, the most "
                "there may be",
                kind=LOAD,
            )
        with self._gate.admit():
            defaults = self._engine.default_params()
        wish = read_send(data, defaults) if kind == "send" else read_resume(data)
        return Request(wish, frames)

    async def _serve(self, name: str, request: "Request") -> None:
        put = self._connection.outbox.put
        try:
            await self._follow(request)
        except Exception as error:
            await put([request.frames.error(refusal_of(error))])
        finally:
            del self._requests[name]

    async def _follow(self, request: "Request") -> None:
        put, frames = self._connection.outbox.put, request.frames
        start = 0
        if isinstance(request.wish, Ask):
            with self._gate.admit():
                turn = await self._chats.begin(request.wish, self._tenant)
        else:
            found = self._chats.find(request.wish.chat, self._tenant)
            if found is None:
                await put([frames.no_active()])
                return
            turn, start = found, request.wish.start
            await put([frames.start()])
        request.hold(turn)
        with self._chats.reading(turn, start) as reader:
            while True:
                first, chunks = await reader.read()
                if not chunks:
                    await put([frames.end()])
                    return
                await put(
                    [frames.chunk(first + at, one) for at, one in enumerate(chunks)]
                )


class Request:
    """A request of the client's, until its last frame.

    Args:
        wish: What it asks for.
        frames: Its shape on the wire.
    """

    def __init__(self, wish: Ask | Resume, frames: Frames) -> None:
        self.wish = wish
        self.frames = frames
        self._turn: Turn | None = None
        self._aborted = False

    def hold(self, turn: Turn) -> None:
        """Say which answer it reads."""
        self._turn = turn
        if self._aborted:
            turn.cancel()

    def abort(self) -> None:
        """End its answer early, for all who read it. Idempotent."""
        self._aborted = True
        if self._turn is not None:
            self._turn.cancel()
