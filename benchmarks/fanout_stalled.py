"""A reader that stops reading: what it costs the others, and in memory."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fanout_servers import SERVERS
from pipeline_case import memory, percentile, processes_of
from pipeline_client import HANDSHAKE, create
from pipeline_readers import Case, Window

from legato import Engine

# Streams of its one socket, so that what the system buffers is soon full.
LANES = 64
STALLING_S = 8.0
PAUSING_S = 60.0
# Small, so that the system takes little of what is not read.
RECEIVE_BYTES = 4096
SEGMENT_BYTES = 536


@asynccontextmanager
async def stalled(port: int, max_tokens: int) -> AsyncGenerator[None]:
    """One socket that asks for many streams and reads none, while the block runs."""
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        asks = [create(max_tokens, stream_id=f"s{n}") for n in range(LANES)]

        def ask() -> None:
            reader.connect(("127.0.0.1", port))
            reader.sendall(HANDSHAKE)
            while not reader.recv(RECEIVE_BYTES).endswith(b"\r\n\r\n"):
                pass
            reader.sendall(b"".join(asks))

        await asyncio.to_thread(ask)
        yield


async def beside_stalled(case: Case, window: Window, port: int) -> dict[str, float]:
    """Delivery to all the others while one reader does not read."""
    async with stalled(port, case.max_context - 64):
        await asyncio.sleep(STALLING_S)
        window.open()
        await asyncio.sleep(case.seconds)
        got = await window.close()
    delays_ms = sorted(1e3 * delay_s for delay_s in got.delays_s)
    return {
        "deliver_ms_p50_beside_stalled": round(percentile(delays_ms, 0.5), 3),
        "deliver_ms_p99_beside_stalled": round(percentile(delays_ms, 0.99), 3),
        "lost_beside_stalled": got.lost,
    }


async def run_stalled(case: Case, server: str, clock: str) -> dict[str, Any]:
    """The memory that it takes in a server that has nobody else to serve.

    It grows until the engine has paused every one of its streams, and then no more.
    """
    engine = case.engine(clock)
    async with SERVERS[server](engine, case) as port:
        here = processes_of(engine)
        async with stalled(port, 64):
            await asyncio.sleep(1.0)  # what the first one loads is nobody's
        await engine.wait_idle()
        empty_bytes = memory(here)
        async with stalled(port, case.max_context - 64):
            await until_paused(engine)
            paused = engine.stats().core.paused
            full_bytes = memory(here)
            await asyncio.sleep(case.seconds)
            later_bytes = memory(here)
        await engine.wait_idle()
        left = engine.stats()
    return {
        "stalled_lanes": LANES,
        "stalled_paused": paused,
        "stalled_kib": (full_bytes - empty_bytes) // 1024,
        "stalled_kib_later": (later_bytes - full_bytes) // 1024,
        "stalled_left_streams": left.open_streams,
        "stalled_left_pages": left.core.pages_used,
    }


async def until_paused(engine: Engine) -> None:
    """Wait until every stream of the reader is paused, or for long enough."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PAUSING_S):
            # Nothing announces a pause to those outside.
            while engine.stats().core.paused < LANES:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
