"""Sockets that vanish, engines that fail and servers that end, and what is left."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FakeRunner
from legato.serve import ServeSettings, create_app, serve

pytestmark = pytest.mark.slow

CHAT = "/v1/chat/completions"
ENDLESS = {"max_output_tokens": 1900, "ignore_eos": True}
CREATE = {"type": "response.create", "input": "hi", **ENDLESS}
TERMINAL = ("response.completed", "response.incomplete", "response.failed")


@asynccontextmanager
async def running(engine, **options):
    """A server on a free port: its address and itself."""
    ready = asyncio.get_running_loop().create_future()
    urls = []
    task = asyncio.create_task(
        serve(
            engine,
            ServeSettings(port=0, **options),
            on_listening=urls.append,
            on_ready=ready.set_result,
        )
    )
    server = await ready
    try:
        yield urls[0], server
    finally:
        server.stop()
        await task


async def ask(websocket, **fields):
    await websocket.send(msgspec.json.encode(CREATE | fields).decode())


async def ends_of(websocket):
    """The terminal events that come until the socket closes."""
    ends = []
    try:
        while True:
            event = msgspec.json.decode(await websocket.recv())
            if event["type"] in TERMINAL:
                ends.append(event["type"])
    except ConnectionClosed:
        return ends


def test_a_hundred_sockets_that_vanish_at_once_leave_nothing(aftermath):
    async def main():
        engine = Engine(FakeModel(step_s=0.001))
        async with running(engine) as (url, _):
            ws = url.replace("http", "ws", 1) + "/v1/responses"
            sockets = [await connect(ws, compression=None) for _ in range(100)]
            for websocket in sockets:
                await ask(websocket)
            await asyncio.gather(*(websocket.recv() for websocket in sockets))
            async with connect(ws, compression=None) as stays:
                await ask(stays, max_output_tokens=20)
                for websocket in sockets:
                    websocket.transport.abort()
                ended = ""
                while ended not in TERMINAL:
                    ended = msgspec.json.decode(await stays.recv())["type"]
                assert ended == "response.incomplete"
            for websocket in sockets:
                await websocket.wait_closed()
            while engine.stats().open_streams:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await aftermath.settle(engine)
            assert engine.stats().core.output_tokens < 100 * 1900

    aftermath.run(main)


def test_a_server_that_ends_under_load_ends_every_answer_once(aftermath):
    async def main():
        engine = Engine(FakeModel(step_s=0.001))
        async with running(engine, drain_s=0.05) as (url, server):
            ws = url.replace("http", "ws", 1) + "/v1/responses"
            sockets = [await connect(ws, compression=None) for _ in range(20)]
            for websocket in sockets:
                await ask(websocket)
            await asyncio.gather(*(websocket.recv() for websocket in sockets))
            reading = [asyncio.create_task(ends_of(each)) for each in sockets]
            server.stop()
            for ends in await asyncio.gather(*reading):
                assert ends == ["response.failed"]

    aftermath.run(main)


def test_an_engine_that_failed_says_so_with_its_cause(aftermath):
    async def main():
        engine = Engine(
            FakeModel(runner=partial(FakeRunner, fail_at=1)), restart_intensity=1
        )
        async with running(engine) as (url, _), httpx.AsyncClient(base_url=url) as http:
            body = {"messages": [{"role": "user", "content": "hi"}]}
            answer = await http.post(CHAT, json=body)
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "engine_failed"
            health = await http.get("/health")
            assert health.status_code == 503
            assert health.json()["status"] == "failed"
            assert "told to fail" in health.json()["cause"]

    aftermath.run(main)


@pytest.mark.parametrize("stream", [False, True])
def test_an_http_answer_can_be_cancelled_at_every_wait(begin, aftermath, stream):
    fields = {"max_tokens": 6, "ignore_eos": True, "stream": stream}
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}

    async def main():
        async with Engine(FakeModel()) as engine:
            app = create_app(engine)

            async def answer():
                asked = []

                async def note(*call):
                    asked.append(call)

                call = begin("POST", CHAT, body, app=note)
                await call.done()
                await app(*asked[0])
                return call

            waits = await aftermath.cut_everywhere(
                answer, lambda: aftermath.settle(engine)
            )
            assert waits >= 3
            assert (await answer()).status == 200

    aftermath.run(main)
