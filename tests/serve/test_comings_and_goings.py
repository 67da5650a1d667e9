"""Clients that connect and leave in every way, and what is left of them."""

import asyncio
import socket
import struct

import msgspec
import pytest

from legato.engine import FakeModel

from .live_server import running

pytestmark = pytest.mark.slow

TIMES = 15
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CLOSE = b"\x88\x82" + bytes(4) + (1000).to_bytes(2, "big")


def create(max_tokens, **fields):
    event = {"type": "response.create", "input": "hi", "ignore_eos": True}
    ask = msgspec.json.encode(event | {"max_output_tokens": max_tokens} | fields)
    return b"\x81\xfe" + len(ask).to_bytes(2, "big") + bytes(4) + ask


async def shake(reader, writer):
    writer.write(HANDSHAKE)
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")


async def at_once(reader, writer):
    pass


async def in_the_handshake(reader, writer):
    writer.write(HANDSHAKE[:40])


async def before_its_answer(reader, writer):
    writer.write(HANDSHAKE)


async def politely(reader, writer):
    await shake(reader, writer)
    writer.write(CLOSE)
    assert (await reader.read()).startswith(b"\x88")


async def in_a_frame(reader, writer):
    await shake(reader, writer)
    writer.write(create(1000)[:30])


async def after_asking(reader, writer):
    await shake(reader, writer)
    writer.write(create(1000))
    await reader.readuntil(b'"response.created"')


async def in_a_stream(reader, writer):
    await shake(reader, writer)
    writer.write(create(1000))
    await reader.readuntil(b'"delta":"')


async def in_many_streams(reader, writer):
    await shake(reader, writer)
    for number in range(4):
        writer.write(create(1000, stream_id=f"lane {number}"))
    await reader.readuntil(b'"delta":"')


async def politely_in_a_stream(reader, writer):
    await in_a_stream(reader, writer)
    writer.write(CLOSE)
    await reader.read()


async def after_the_answer(reader, writer):
    await shake(reader, writer)
    writer.write(create(5))
    await reader.readuntil(b'"response.incomplete"')


WAYS = (
    at_once,
    in_the_handshake,
    before_its_answer,
    politely,
    in_a_frame,
    after_asking,
    in_a_stream,
    in_many_streams,
    politely_in_a_stream,
    after_the_answer,
)


async def visit(port, leave, resets):
    """Connect, and leave: with the connection closed, or reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await leave(reader, writer)
    if resets:
        linger = struct.pack("ii", 1, 0)
        peer = writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def test_hundreds_who_come_and_leave_in_every_way_leave_nothing(aftermath):
    async def main():
        async with running(FakeModel(step_s=0.001)) as run:
            port = int(run.url.rpartition(":")[2])
            for turn in range(TIMES):
                visits = (
                    visit(port, leave, resets)
                    for leave in WAYS
                    for resets in (False, True)
                )
                await asyncio.gather(*visits)
                assert run.engine.state == "ready", turn
            served = run.server.server_state
            # Nothing announces that the last has gone.
            while served.connections or served.tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await aftermath.settle(run.engine)
            assert run.server._gate.inside == 0

    aftermath.run(main)
    assert len(aftermath.opened) >= TIMES * 2 * 5  # of every way that surely asks
