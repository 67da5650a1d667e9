"""Clients that speak TCP and little HTTP, against the real server."""

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager

import msgspec
import pytest
from websockets.asyncio.client import connect

from legato.serve import ServeSettings, create_app, transport
from legato.serve.server import Server, listen

pytestmark = pytest.mark.anyio

BODY = msgspec.json.encode({"messages": [{"role": "user", "content": "hi"}]})
POST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
    b"content-type: application/json\r\n"
)
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n"
UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n"
    b"connection: upgrade\r\nsec-websocket-version: 13\r\n"
)
# More than the buffers of a connection hold, so that whoever closes in the middle of
# it resets the connection.
MANY = 6 * 2**20


def with_length(length):
    return POST + b"content-length: %d\r\n\r\n" % length


@asynccontextmanager
async def listening(engine, **options):
    """A server; gives the address."""
    settings = ServeSettings(port=0, **options)
    server = Server(create_app(engine, settings), settings)
    with listen(settings) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()
        finally:
            server.stop(at_once=True)
            await task


@asynccontextmanager
async def talking(engine, **options):
    """A server and a connection to it that reads as it comes."""
    async with listening(engine, **options) as address:
        reader, writer = await asyncio.open_connection(*address)
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def send_then_read(address, *pieces):
    """Send everything; only then read, to the end."""

    def talk():
        with socket.create_connection(address, timeout=30) as client:
            for piece in pieces:
                client.sendall(piece)
            answer = b""
            while data := client.recv(2**16):
                answer += data
            return answer

    return await asyncio.to_thread(talk)


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


def error_of(answer):
    """The error of an answer after which nothing came."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return msgspec.json.decode(body)["error"]


async def send_for_ever(writer):
    """Send until the connection breaks."""
    while True:
        writer.write(b"x" * 1000)
        await writer.drain()


async def read_answer(reader):
    """Read one whole answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


async def outlast_the_deadline(writer):
    """Wait for the server to end a connection that began later than this one."""
    assert await send_then_read(writer.get_extra_info("peername")) == b""


@pytest.mark.parametrize(
    "head",
    [
        HEALTH + b"x: y\r\n" * (MANY // 6),
        HEALTH + b"x: " + b"y" * MANY,
        HEALTH + b"y" * MANY,
        b"GET /" + b"y" * MANY,
        UPGRADE + b"x: y\r\n" * (MANY // 6),
        CHUNKED + b"0\r\n" + b"x: y\r\n" * (MANY // 6),
        CHUNKED + b"0\r\nx: " + b"y" * MANY,
        CHUNKED + b"1;" + b"y" * MANY,
    ],
    ids=["many", "value", "name", "url", "socket", "trailers", "trailer", "extension"],
)
async def test_headers_over_the_limit_are_431_and_the_answer_arrives(engine, head):
    async with listening(engine) as address:
        answer = await send_then_read(address, head)
    assert status_of(answer) == 431
    assert error_of(answer)["code"] == "headers_too_large"
    assert engine.requests == []


@pytest.mark.parametrize("at_once", [True, False])
async def test_headers_up_to_the_limit_are_taken_however_they_come(engine, at_once):
    head = HEALTH + b"x: " + b"y" * 100 + b"\r\n\r\n"
    pieces = [head] if at_once else [head[at : at + 1] for at in range(len(head))]
    # At least every name and value is counted, and never more than every byte.
    for most, status in ((len(head), 200), (100, 431)):
        async with talking(engine, max_header_bytes=most) as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            assert status_of(await read_answer(reader)) == status


async def test_a_body_larger_than_the_headers_may_be_is_none_of_them(engine):
    padded = BODY + b" " * 2**18
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
    async with talking(engine, max_header_bytes=200) as (reader, writer):
        for request in (with_length(len(padded)) + padded, CHUNKED + chunks) * 2:
            writer.write(request)
            assert status_of(await read_answer(reader)) == 200


@pytest.mark.parametrize("head", [HEALTH, UPGRADE, b"G", POST + b"x: y"])
async def test_headers_that_do_not_end_in_time_are_408(engine, head):
    async with listening(engine, header_deadline_s=0.02) as address:
        answer = await send_then_read(address, head)
    assert status_of(answer) == 408
    assert error_of(answer)["code"] == "request_timeout"


async def test_a_second_request_has_the_same_deadline(engine):
    async with talking(engine, header_deadline_s=0.02) as (reader, writer):
        writer.write(HEALTH + b"\r\n")
        assert status_of(await read_answer(reader)) == 200
        writer.write(HEALTH)
        assert status_of(await reader.read()) == 408


async def test_dribbling_headers_does_not_extend_the_deadline(engine):
    async with talking(engine, header_deadline_s=0.02) as (reader, writer):
        writer.write(HEALTH)
        answer = asyncio.create_task(reader.read())
        while not answer.done():
            writer.write(b"x: y\r\n")
            await asyncio.wait([answer], timeout=0.001)
        assert status_of(await answer) == 408


async def test_a_connection_that_says_nothing_is_closed(engine):
    async with listening(engine, header_deadline_s=0.02) as address:
        assert await send_then_read(address) == b""


async def test_a_request_whose_headers_came_is_not_hurried(engine, deltas):
    release = asyncio.Event()
    engine.script = [release, *deltas("Hello")]
    async with talking(engine, header_deadline_s=0.02) as (reader, writer):
        writer.write(with_length(len(BODY)))
        await outlast_the_deadline(writer)
        writer.write(BODY)
        await engine.until_open(1)
        await outlast_the_deadline(writer)
        release.set()
        assert b"Hello" in await read_answer(reader)
        # Nor is an idle connection.
        await outlast_the_deadline(writer)
        writer.write(HEALTH + b"\r\n")
        assert status_of(await read_answer(reader)) == 200


async def test_an_open_socket_has_no_deadline(engine):
    async with listening(engine, header_deadline_s=0.02) as address:
        url = "ws://{}:{}/v1/responses".format(*address)
        async with connect(url) as websocket:
            await outlast_the_deadline(websocket.transport)
            await websocket.send("{")
            assert msgspec.json.decode(await websocket.recv())["type"] == "error"


async def test_the_rest_of_a_refused_body_has_a_deadline(engine):
    head = with_length(2**20).replace(b"application/json", b"text/plain")
    async with talking(engine, header_deadline_s=0.02) as (reader, writer):
        writer.write(head)
        assert status_of(await read_answer(reader)) == 415
        writer.write(b"x")
        assert await reader.read() == b""


async def test_a_handshake_that_the_socket_cannot_take_is_answered(engine):
    long = UPGRADE + b"x: " + b"y" * 10_000 + b"\r\n\r\n"
    async with listening(engine) as address:
        answer = await send_then_read(address, long)
    assert status_of(answer) == 400
    assert error_of(answer)["code"] == "bad_request"


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_gets_its_413_after_it_was_sent(engine, announced):
    body = b"x" * MANY
    if announced:
        pieces = [with_length(MANY), body]
    else:
        pieces = [CHUNKED, b"%x\r\n" % MANY, body, b"\r\n0\r\n\r\n"]
    async with listening(engine, max_body_bytes=1000) as address:
        answer = await send_then_read(address, *pieces)
    assert status_of(answer) == 413
    assert error_of(answer)["code"] == "request_too_large"


@pytest.mark.parametrize("sent", [b"\x00" * MANY, CHUNKED + b"no size" + b"x" * MANY])
async def test_what_is_no_http_gets_its_400_after_it_was_sent(engine, sent):
    async with listening(engine) as address:
        answer = await send_then_read(address, sent)
    assert status_of(answer) == 400
    assert error_of(answer)["code"] == "bad_request"


async def test_headers_too_large_behind_a_request_do_not_take_its_answer(engine):
    engine.script = [asyncio.Event()]
    async with talking(engine, max_header_bytes=1000) as (reader, writer):
        writer.write(with_length(len(BODY)) + BODY)
        await engine.until_open(1)
        writer.write(HEALTH + b"x: y\r\n" * 1000)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await engine.until_open(0)


@pytest.mark.parametrize(("name", "most"), [("LINGER_S", 0.02), ("LINGER_BYTES", 1000)])
async def test_a_refused_client_that_sends_on_is_cut(engine, monkeypatch, name, most):
    monkeypatch.setattr(transport, name, most)
    async with talking(engine) as (reader, writer):
        writer.write(b"\x00")
        assert status_of(await reader.read()) == 400
        with pytest.raises(OSError):
            await send_for_ever(writer)


@pytest.mark.parametrize("stream", [True, False])
async def test_closing_only_the_sending_side_is_leaving(engine, stream):
    engine.script = [asyncio.Event()]
    fields = {**msgspec.json.decode(BODY), "stream": stream}
    body = msgspec.json.encode(fields)
    async with talking(engine) as (reader, writer):
        writer.write(with_length(len(body)) + body)
        await engine.until_open(1)
        writer.write_eof()
        assert await reader.read() == b""
        await engine.until_open(0)


async def test_one_of_pipelined_requests_ends_with_its_client(engine):
    engine.script = [asyncio.Event()]
    async with talking(engine) as (reader, writer):
        writer.write(with_length(len(BODY)) + BODY + HEALTH + b"\r\n")
        await engine.until_open(1)
        writer.write_eof()
        assert await reader.read() == b""
        await engine.until_open(0)


async def test_requests_without_end_are_parsed_as_they_are_answered(
    engine, deltas, monkeypatch
):
    release = asyncio.Event()
    engine.script = [release, *deltas("Hello")]
    begun = []
    begin = transport.HttpTransport.on_message_begin
    monkeypatch.setattr(
        transport.HttpTransport,
        "on_message_begin",
        lambda protocol: begun.append(begin(protocol)),
    )
    number = 1000
    async with talking(engine) as (reader, writer):
        writer.write(with_length(len(BODY)) + BODY + (HEALTH + b"\r\n") * number)
        await engine.until_open(1)
        assert 1 < len(begun) < 200
        release.set()
        assert b"Hello" in await read_answer(reader)
        for _ in range(number):
            assert status_of(await read_answer(reader)) == 200
    assert len(begun) == 1 + number
