"""Messages that need no task, over the real transport."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import uvicorn
from websockets.asyncio.client import connect

from legato.serve import ServeSettings
from legato.serve.server import listen
from legato.serve.socket_transport import SocketTransport

pytestmark = pytest.mark.anyio


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
