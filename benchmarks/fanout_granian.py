"""Granian inside this process and its loop: optional, for comparison alone."""

import asyncio
import contextlib
import importlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

INSTALLED = find_spec("granian") is not None
STOPPING_S = 5.0


@asynccontextmanager
async def granian_serving(app: Any, backlog: int) -> AsyncGenerator[int]:
    """An ASGI application behind granian on a free port.

    Args:
        app: Without a lifespan.
        backlog: Connections at most; it holds back more.
    """
    embed = importlib.import_module("granian.server.embed")
    constants = importlib.import_module("granian.constants")
    port = free_port()
    server = embed.Server(
        app,
        address="127.0.0.1",
        port=port,
        interface=constants.Interfaces.ASGINL,
        http=constants.HTTPModes.http1,
        backlog=backlog,
        backpressure=backlog,
        log_enabled=False,
    )
    serving = asyncio.create_task(server.serve())
    await until_listening(port)
    try:
        yield port
    finally:
        server.stop()
        await asyncio.wait([serving], timeout=STOPPING_S)


def free_port() -> int:
    """A port that was free a moment ago; granian takes no socket that is bound."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


async def until_listening(port: int) -> None:
    """Try to connect until somebody listens."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("the server does not listen")
