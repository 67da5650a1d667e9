"""Bare WebSocket servers that only send: the floor of the fan-out benchmark.

Each sends the frames of a Responses stream, one a step to each socket, from one task,
and does nothing else: no engine, no text, no bounds. It writes what it spent as JSON
when it has got two lines of input.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
import uvloop
from fanout_granian import granian_serving
from pipeline_floor import FRAME
from websockets.asyncio.server import ServerConnection, serve

BACKLOG = 8192
Push = Callable[[str], Awaitable[None]]


class Crowd:
    """The sockets that are open, and what they were sent.

    Args:
        step_s: Seconds between two frames of a socket.
    """

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self.pushes: dict[int, Push] = {}
        self.sent = 0

    async def run(self) -> None:
        """Send one frame a step to each, until cancelled."""
        number, due_s = 0, time.perf_counter()
        while True:
            due_s = max(due_s + self._step_s, time.perf_counter())
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            number += 1
            for key, push in list(self.pushes.items()):
                with contextlib.suppress(Exception):
                    await push((FRAME % (key, number)).decode())
                    self.sent += 1


async def with_websockets(crowd: Crowd, port: asyncio.Future[int]) -> None:
    """The `websockets` package's own server."""

    async def handle(connection: ServerConnection) -> None:
        crowd.pushes[id(connection)] = connection.send
        try:
            await connection.wait_closed()
        finally:
            del crowd.pushes[id(connection)]

    async with serve(
        handle, "127.0.0.1", 0, compression=None, backlog=BACKLOG, ping_interval=None
    ) as server:
        (listener,) = server.sockets
        port.set_result(listener.getsockname()[1])
        await asyncio.get_running_loop().create_future()


def app_of(crowd: Crowd) -> Any:
    """The crowd as a raw ASGI application."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})

        async def push(frame: str) -> None:
            await send({"type": "websocket.send", "text": frame})

        crowd.pushes[id(scope)] = push
        try:
            while (await receive())["type"] != "websocket.disconnect":
                pass
        finally:
            del crowd.pushes[id(scope)]

    return app


async def with_uvicorn(crowd: Crowd, port: asyncio.Future[int]) -> None:
    """Uvicorn."""
    config = uvicorn.Config(
        app_of(crowd),
        lifespan="off",
        log_level="critical",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
    )
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        port.set_result(listener.getsockname()[1])
        await uvicorn.Server(config).serve(sockets=[listener])


async def with_granian(crowd: Crowd, port: asyncio.Future[int]) -> None:
    """Granian."""
    async with granian_serving(app_of(crowd), BACKLOG) as number:
        port.set_result(number)
        await asyncio.get_running_loop().create_future()


SERVERS = {
    "websockets": with_websockets,
    "uvicorn": with_uvicorn,
    "granian": with_granian,
}


async def main() -> None:
    """Serve until told to count, count until told to stop, and print."""
    kind, step_ms = sys.argv[1], float(sys.argv[2])
    crowd = Crowd(step_ms / 1e3)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(SERVERS[kind](crowd, port))
        group.create_task(crowd.run())
        print(await port, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began_s, before = time.process_time(), crowd.sent
        await asyncio.to_thread(sys.stdin.readline)
        spent_s, sent = time.process_time() - began_s, crowd.sent - before
        print(json.dumps({"us_per_frame": 1e6 * spent_s / max(1, sent)}), flush=True)
        os._exit(0)  # those who are cut off in the middle have nothing more to say


if __name__ == "__main__":
    uvloop.run(main())
