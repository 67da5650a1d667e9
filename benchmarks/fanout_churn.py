"""Thousands who connect and leave, politely or not, and what is left of them.

Run as a script it is the clients: the port and their number on the command line.
"""

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import uvloop
from pipeline_client import CLOSE, HANDSHAKE, create, masked
from pipeline_readers import Case

from legato import Engine
from legato.serve import Server, ServeSettings, serve

TOKENS = 200
AT_ONCE = 64
WARM_UP = 1000
SETTLING_S = 30.0
HEADER_DEADLINE_S = 1.0
# One in so many stays silent in the middle of its handshake until it is given up.
SILENT_EVERY = 50
TERMINAL = b"response.incomplete"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Leave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say nothing."""


async def half_a_handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Leave in the middle of the handshake."""
    writer.write(HANDSHAKE[:40])


async def politely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shake hands, close as one should, and wait for the answer."""
    await shake(reader, writer)
    writer.write(masked(CLOSE, (1000).to_bytes(2, "big")))
    await reader.read()


async def in_a_frame(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Leave in the middle of a frame."""
    await shake(reader, writer)
    writer.write(create(TOKENS)[:30])


async def after_asking(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Ask, and do not wait for anything."""
    await shake(reader, writer)
    writer.write(create(TOKENS))
    await writer.drain()


async def in_a_stream(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Leave with a stream under way."""
    await shake(reader, writer)
    writer.write(create(TOKENS))
    await reader.readuntil(b'"delta":"')


async def after_the_answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Stay for a whole answer."""
    await shake(reader, writer)
    writer.write(create(5))
    await reader.readuntil(TERMINAL)


async def when_given_up(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Stop in the middle of the handshake, and stay."""
    writer.write(HANDSHAKE[:40])
    await reader.read()


WAYS: tuple[Leave, ...] = (
    at_once,
    half_a_handshake,
    politely,
    in_a_frame,
    after_asking,
    in_a_stream,
    after_the_answer,
)


async def shake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shake hands."""
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")


async def visit(port: int, leave: Leave, abrupt: bool) -> None:
    """Connect, and leave.

    Args:
        port: Of the server on this machine.
        leave: What comes before that.
        abrupt: Reset the connection instead of closing it.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await leave(reader, writer)
    finally:
        if abrupt:
            peer: socket.socket = writer.get_extra_info("socket")
            linger = struct.pack("ii", 1, 0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def visit_all(port: int, number: int) -> None:
    """Let so many come and leave, a bounded number at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def visit_in_turn(index: int) -> None:
        async with room:
            way, turn = index % len(WAYS), index // len(WAYS)
            await visit(port, WAYS[way], abrupt=turn % 2 == 0)

    silent = number // SILENT_EVERY
    async with asyncio.TaskGroup() as group:
        for _ in range(silent):
            group.create_task(visit(port, when_given_up, abrupt=False))
        for index in range(number - silent):
            group.create_task(visit_in_turn(index))


async def run_churn(case: Case, connects: int, clock: str) -> dict[str, Any]:
    """What is in the server's process after them and was not before."""
    engine = case.engine(clock)
    ready: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    urls: list[str] = []
    settings = ServeSettings(port=0, drain_s=0, header_deadline_s=HEADER_DEADLINE_S)
    serving = asyncio.create_task(
        serve(engine, settings, on_listening=urls.append, on_ready=ready.set_result)
    )
    server = await ready
    port = int(urls[0].rpartition(":")[2])
    await come_and_go(port, WARM_UP)
    before = await remains(engine, server)
    halves: list[dict[str, int]] = []
    for part in (connects // 2, connects - connects // 2):
        await come_and_go(port, part)
        halves.append(await remains(engine, server))
    server.stop(at_once=True)
    await serving
    left = {f"churn_left_{name}": halves[1][name] - before[name] for name in before}
    kib = left.pop("churn_left_kib")
    later = {"churn_kib_second_half": halves[1]["kib"] - halves[0]["kib"]}
    return {"churn_connects": connects} | left | {"churn_kib": kib} | later


async def come_and_go(port: int, number: int) -> None:
    """Run the clients in a process of their own."""
    command = (sys.executable, str(Path(__file__)), str(port), str(number))
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait():
        raise RuntimeError("the clients failed")


async def remains(engine: Engine, server: Server) -> dict[str, int]:
    """What there is once everybody has gone, or after long enough."""
    connections = server.server_state.connections
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLING_S):
            # Nothing announces that the last of them has gone.
            while connections or engine.stats().open_streams:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await engine.wait_idle()
    process = psutil.Process()
    stats = engine.stats()
    return {
        "fds": process.num_fds(),
        "threads": process.num_threads(),
        "tasks": len(asyncio.all_tasks()),
        "sockets": len(connections),
        "streams": stats.open_streams,
        "pages": stats.core.pages_used,
        "kib": process.memory_info().rss // 1024,
    }


if __name__ == "__main__":
    uvloop.run(visit_all(int(sys.argv[1]), int(sys.argv[2])))
