"""Messages that need no task, over the real transport."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from legato.serve import ServeSettings
from legato.serve.server import listen
from legato.serve.socket_transport import SocketTransport

pytestmark = pytest.mark.anyio

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@asynccontextmanager
async def serving(app):
    """Any application on the server's own socket transport."""
    config = uvicorn.Config(app, ws=SocketTransport, lifespan="off")
    server = uvicorn.Server(config)
    with listen(ServeSettings(port=0)) as listener:
        config.load()
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            await task


@pytest.mark.parametrize("message", ["short", "é" * 100, "x" * 70_000, bytes(300)])
async def test_a_message_sent_at_once_is_a_frame_like_any_other(message):
    async def app(scope, receive, send):
        assert scope["type"] == "websocket"
        await receive()
        await send({"type": "websocket.accept"})
        assert scope["extensions"]["legato.send"](message)
        while (await receive())["type"] != "websocket.disconnect":
            pass
        assert not scope["extensions"]["legato.send"](message)
        gone.set()

    gone = asyncio.Event()
    async with serving(app) as (host, port):
        async with connect(f"ws://{host}:{port}/") as websocket:
            assert await websocket.recv() == message
        await gone.wait()


async def test_nothing_is_sent_at_once_to_a_client_that_does_not_read():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        send_now = scope["extensions"]["legato.send"]
        sent = 0
        while send_now("x" * 2**16):
            sent += 1
        refused.set_result(sent)

    refused: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with (
        serving(app) as (host, port),
        connect(f"ws://{host}:{port}/", max_queue=1) as websocket,
    ):
        sent = await refused
        assert 0 < sent < 10_000
        for _ in range(sent):
            assert len(await websocket.recv()) == 2**16


def frame(kind, data=b"", *, fin=True):
    return Frame(kind, data, fin).serialize(mask=True)


@asynccontextmanager
async def speaking(address):
    """A client that sends frames of its own making."""
    async with connect("ws://{}:{}/".format(*address), ping_interval=None) as websocket:
        yield websocket, websocket.transport.write


@pytest.mark.parametrize("kind", [Opcode.TEXT, Opcode.BINARY])
async def test_fragments_of_one_byte_are_joined_as_they_come(kind):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        transport = scope["extensions"]["legato.send"].__self__
        got.append(await receive())
        got.append(transport.frames)

    got = []
    fragments = [frame(Opcode.CONT, b"x", fin=False)] * 1000
    async with (
        serving(app) as address,
        speaking(address) as (websocket, write),
    ):
        write(frame(kind, b"", fin=False) + b"".join(fragments))
        write(frame(Opcode.CONT, b"y"))
        await websocket.wait_closed()
    message = b"x" * 1000 + b"y"
    field, whole = ("bytes", message), message.decode()
    if kind is Opcode.TEXT:
        field = ("text", whole)
    assert got == [{"type": "websocket.receive", field[0]: field[1]}, []]


async def test_text_that_is_not_utf_8_closes_with_1007_and_is_nobodys_error(caplog):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        assert (await receive())["type"] == "websocket.disconnect"

    async with serving(app) as address, speaking(address) as (websocket, write):
        write(frame(Opcode.TEXT, b"\xff") + frame(Opcode.TEXT, b"\xff"))
        with pytest.raises(ConnectionClosed) as closed:
            await websocket.recv()
    assert closed.value.rcvd.code == 1007
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_of_the_pings_of_a_client_that_does_not_read_the_last_is_answered():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        transport = scope["extensions"]["legato.send"].__self__
        transport.pause_writing()
        await receive()
        transport.resume_writing()
        await receive()

    heard = []
    async with serving(app) as address, speaking(address) as (websocket, write):
        receive_pong = websocket.protocol.recv_frame
        websocket.protocol.recv_frame = lambda one: (
            heard.append(one.data) or receive_pong(one)
        )
        pongs = [await websocket.ping(name) for name in (b"1", b"2", b"3")]
        write(frame(Opcode.TEXT, b"go on"))
        await asyncio.gather(*pongs)
    assert heard[0] == b"3"


async def test_a_handshake_that_the_application_refuses_is_nobodys_error(caplog):
    async def app(scope, receive, send):
        start = {"type": "websocket.http.response.start", "status": 404, "headers": []}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": b"nowhere"})

    async with serving(app) as (host, port):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{host}:{port}/")
    assert refused.value.response.body == b"nowhere"
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_key_that_is_no_subprotocol_is_not_repeated():
    async def app(scope, receive, send):
        raise AssertionError("it never comes that far")

    offer = {"Sec-WebSocket-Protocol": "openai-insecure-api-key.sk/secret="}
    async with serving(app) as (host, port):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{host}:{port}/", additional_headers=offer)
    assert refused.value.response.status_code == 400
    assert b"Authorization" in refused.value.response.body
    assert b"secret" not in refused.value.response.body


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({}, 400, "missing Sec-WebSocket-Key header"),
        ({"Sec-WebSocket-Key": "short"}, 400, "invalid Sec-WebSocket-Key header"),
        (
            {"Sec-WebSocket-Key": KEY, "Sec-WebSocket-Version": "8"},
            400,
            "invalid Sec-WebSocket-Version header: 8",
        ),
        ({"Sec-WebSocket-Key": KEY}, 400, "missing Sec-WebSocket-Version header"),
    ],
)
async def test_a_bad_handshake_is_refused_in_the_apis_own_form(
    headers, status, reason, caplog
):
    async def app(scope, receive, send):
        raise AssertionError("it never comes that far")

    asked = {"Host": "x", "Connection": "Upgrade", "Upgrade": "websocket"} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in asked.items())
    async with serving(app) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"GET /v1/responses HTTP/1.1\r\n{lines}\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert head.lower().count(b"content-type: application/json") == 1
    assert b"content-length: %d\r\n" % len(body) in head.lower() + b"\r\n"
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"]) == ("bad_request", "invalid_request_error")
    assert reason in error["message"]
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_server_that_goes_while_a_client_leaves_closes_without_a_fault():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        transport = scope["extensions"]["legato.send"].__self__
        assert (await receive())["type"] == "websocket.disconnect"
        transport.shutdown()
        gone.set_result(transport.transport.is_closing())

    gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    async with serving(app) as (host, port):
        async with connect(f"ws://{host}:{port}/"):
            pass
        async with asyncio.timeout(10):
            assert await gone
