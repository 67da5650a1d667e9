"""The real server on a real port, for tests that need one each."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from legato.engine import Engine
from legato.serve import ServeSettings, serve

TERMINAL = {
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
}


class Running:
    """A server under test."""

    def __init__(self, engine):
        self.engine = engine
        self.server = None
        self.url = ""

    @property
    def ws(self):
        return self.url.replace("http", "ws", 1) + "/v1/responses"

    def connect(self, **options):
        return connect(self.ws, compression=None, **options)


@asynccontextmanager
async def running(model, **options):
    run = Running(Engine(model))
    ready = asyncio.Event()

    def on_ready(server):
        run.server = server
        ready.set()

    def on_listening(url):
        run.url = url

    settings = ServeSettings(port=0, **options)
    task = asyncio.create_task(
        serve(run.engine, settings, on_listening=on_listening, on_ready=on_ready)
    )
    await asyncio.wait(
        [task, asyncio.ensure_future(ready.wait())],
        return_when=asyncio.FIRST_COMPLETED,
    )
    try:
        yield run
    finally:
        run.server.stop()
        await task


async def events_of(websocket, most=10_000):
    """Receive up to the terminal event, or so many."""
    events = []
    while len(events) < most and (not events or events[-1]["type"] not in TERMINAL):
        events.append(msgspec.json.decode(await websocket.recv()))
    return events


async def closing_of(websocket):
    """Receive to the end of a socket that the other side closes."""
    try:
        while True:
            await websocket.recv()
    except ConnectionClosed as closed:
        return closed


async def assert_pages_are_back(engine):
    await engine.wait_idle()
    core = engine.stats().core
    assert core.live == 0
    assert core.pages_used == 0
    assert core.pages_free + core.pages_cached == core.pages_total
