"""A reader that stops reading, over the real server, engine and sockets."""

import asyncio
import socket

import msgspec
import pytest

from legato.actors.open_stream import PAUSE_AT_TOKENS
from legato.engine import FakeModel

from .live_server import events_of, running

pytestmark = pytest.mark.slow

LANES = 8
TOKENS = 1800
# Of uvloop's transports; a message may cross it.
WRITE_LIMIT_BYTES = 64 * 1024
MESSAGE_BYTES = 1024


def create(**fields):
    event = {"type": "response.create", "input": "hi", "temperature": 0}
    return msgspec.json.encode(event | {"ignore_eos": True} | fields)


async def stalled_reader(port):
    """A socket that asks for streams and never reads them; the system buffers little.

    Large buffers would only make the test longer.
    """
    loop = asyncio.get_running_loop()
    reader = socket.socket()
    reader.setblocking(False)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    await loop.sock_connect(reader, ("127.0.0.1", port))
    await loop.sock_sendall(
        reader,
        b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await loop.sock_recv(reader, 1)
    for number in range(LANES):
        ask = create(stream_id=f"lane {number}", max_output_tokens=TOKENS)
        frame = b"\x81\xfe" + len(ask).to_bytes(2, "big") + bytes(4) + ask
        await loop.sock_sendall(reader, frame)
    return reader


async def answer(websocket):
    """A whole answer to somebody who reads."""
    await websocket.send(create(max_output_tokens=20).decode())
    events = await events_of(websocket)
    assert events[-1]["response"]["usage"]["output_tokens"] == 20
    deltas = (event for event in events if event["type"].endswith("text.delta"))
    return "".join(event["delta"] for event in deltas)


def test_a_reader_that_stops_is_paused_and_costs_the_others_nothing(aftermath):
    async def main():
        async with running(FakeModel(step_s=0.001)) as run, run.connect() as other:
            core = lambda: run.engine.stats().core  # noqa: E731
            alone = await answer(other)
            reader = await stalled_reader(int(run.url.rpartition(":")[2]))
            while core().paused < LANES:
                assert await answer(other) == alone
            opened = [stream for _, stream in aftermath.opened if not stream.ended]
            assert len(opened) == LANES
            await answer(other)  # what was in flight at the pause has come
            unread = [stream._unread for stream in opened]
            assert min(unread) > PAUSE_AT_TOKENS
            connections = run.server.server_state.connections
            held = [c.transport.get_write_buffer_size() for c in connections]
            assert 0 < max(held) <= WRITE_LIMIT_BYTES + MESSAGE_BYTES
            for _ in range(10):
                assert await answer(other) == alone
            assert unread == [stream._unread for stream in opened]
            assert core().paused == LANES
            reader.close()
            while run.engine.stats().open_streams:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert await answer(other) == alone
            await aftermath.settle(run.engine)
            assert len(run.server.server_state.connections) == 1

    aftermath.run(main)
