"""The servers that can carry the application, behind one small interface.

Each serves the same application over the same engine until its block is left:

- uvicorn: the one that is shipped, with a way to send without a task;
- plain: uvicorn as it comes, where every frame takes a task's turn;
- granian: as it comes;
- websockets: that package's own server under a thin adapter, with the same way to send
  without a task. It serves no HTTP.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
from fanout_granian import granian_serving
from pipeline_readers import Case, served
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from legato import Engine
from legato.serve import create_app
from legato.serve.socket_transport import framed

Serve = Callable[[Engine, Case], AbstractAsyncContextManager[int]]


@asynccontextmanager
async def served_plain(engine: Engine, case: Case) -> AsyncGenerator[int]:
    """Behind uvicorn's own protocols."""
    async with engine:
        config = uvicorn.Config(
            create_app(engine),
            lifespan="off",
            log_level="critical",
            ws="websockets-sansio",
            ws_per_message_deflate=False,
        )
        server = uvicorn.Server(config)
        backlog = case.streams + 16
        with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            yield listener.getsockname()[1]
            server.should_exit = server.force_exit = True
            await serving


@asynccontextmanager
async def served_by_granian(engine: Engine, case: Case) -> AsyncGenerator[int]:
    """Behind granian."""
    backlog = case.streams + case.extra + 16
    async with engine, granian_serving(create_app(engine), backlog) as port:
        yield port


@asynccontextmanager
async def served_by_websockets(engine: Engine, case: Case) -> AsyncGenerator[int]:
    """Behind the `websockets` package's server."""
    async with engine:
        app = create_app(engine)

        async def handle(connection: ServerConnection) -> None:
            handled = HandledSocket(connection)
            await app(handled.scope, handled.receive, handled.send)

        async with serve_websockets(
            handle, "127.0.0.1", 0, compression=None, backlog=case.streams + 16
        ) as server:
            (listener,) = server.sockets
            yield listener.getsockname()[1]
            server.close(code=1012)


class HandledSocket:
    """A connection of the `websockets` package as ASGI has it.

    Args:
        connection: After its handshake, so the application can refuse nothing more.
    """

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._begun = False
        request = connection.request
        assert request is not None
        headers = request.headers.raw_items()
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "path": request.path,
            "query_string": b"",
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers],
            "subprotocols": [],
            "extensions": {"legato.send": self.send_now},
        }

    async def receive(self) -> dict[str, Any]:
        """The next ASGI message."""
        if not self._begun:
            self._begun = True
            return {"type": "websocket.connect"}
        try:
            message = await self._connection.recv()
        except ConnectionClosed:
            return {"type": "websocket.disconnect", "code": 1006}
        kind = "text" if isinstance(message, str) else "bytes"
        return {"type": "websocket.receive", kind: message}

    async def send(self, message: Any) -> None:
        """Do what an ASGI message says."""
        if message["type"] == "websocket.send":
            try:
                await self._connection.send(message.get("text") or message["bytes"])
            except ConnectionClosed as error:
                raise OSError from error
        elif message["type"] == "websocket.close":
            await self._connection.close(message["code"], message.get("reason") or "")

    def send_now(self, message: str | bytes) -> bool:
        """Send at once, as the transport that is shipped does."""
        connection = self._connection
        if connection.paused or connection.state is not State.OPEN:
            return False
        connection.transport.write(framed(message))
        return True


SERVERS: dict[str, Serve] = {
    "uvicorn": served,
    "plain": served_plain,
    "granian": served_by_granian,
    "websockets": served_by_websockets,
}
