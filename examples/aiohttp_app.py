"""Push tokens over an aiohttp application's own WebSocket.

The engine runs in the application's loop. A client sends a question as text, gets
pieces of the answer, then an empty message. One that leaves cancels its answer.

    pip install aiohttp
    python examples/aiohttp_app.py            # or: … fake, a .gguf file, a directory
    websocat ws://127.0.0.1:8080/ask
"""

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import WSMsgType, web

from legato import ChatMessage, Engine, LegatoError

ENGINE = web.AppKey("engine", Engine)


async def ask(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(heartbeat=20)
    await socket.prepare(request)
    engine = request.app[ENGINE]
    answering: asyncio.Task[None] | None = None
    # Reading goes on while an answer is pushed: that is how leaving is noticed.
    async for message in socket:
        if message.type is WSMsgType.TEXT and (answering is None or answering.done()):
            answering = asyncio.create_task(push(engine, socket, message.data))
    if answering is not None:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
    return socket


async def push(engine: Engine, socket: web.WebSocketResponse, text: str) -> None:
    try:
        async with engine.stream([ChatMessage("user", text)]) as stream:
            async for delta in stream:
                if delta.text:
                    await socket.send_str(delta.text)
        await socket.send_str("")
    except LegatoError as error:
        await socket.send_json({"error": str(error)})


def make_app(model: str = "smollm2") -> web.Application:
    async def with_engine(app: web.Application) -> AsyncIterator[None]:
        async with Engine(model) as app[ENGINE]:
            yield

    app = web.Application()
    app.cleanup_ctx.append(with_engine)
    app.router.add_get("/ask", ask)
    return app


if __name__ == "__main__":
    web.run_app(make_app(*sys.argv[1:2]), host="127.0.0.1")
