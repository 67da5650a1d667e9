"""Clients that leave at every stage, over the real engine on a paced device."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FAKE_LIMITS
from legato.serve import create_app

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
FOREVER = {"ignore_eos": True, "max_tokens": 1000}


@asynccontextmanager
async def engine_of(**limits):
    """An engine whose device holds only so much."""
    model = FakeModel(
        step_s=0.001, limits=msgspec.structs.replace(FAKE_LIMITS, **limits)
    )
    async with Engine(model) as engine:
        yield engine
        await engine.wait_idle()
        core = engine.stats().core
        assert (core.live, core.pages_used) == (0, 0)
        assert core.pages_free + core.pages_cached == core.pages_total


async def until(condition):
    # Nothing announces an open stream to those who do not read it.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def chat(text="hi", **fields):
    return {"messages": [{"role": "user", "content": text}], **FOREVER, **fields}


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_while_queued_ends_the_request(begin, stream):
    async with engine_of(num_slots=1) as engine:
        app = create_app(engine)
        first = begin("POST", CHAT, chat(stream=True), app=app)
        await first.wait_for(b"data:")
        queued = begin("POST", CHAT, chat(stream=stream), app=app)
        await until(lambda: engine.stats().open_streams == 2)
        queued.disconnect()
        await queued.done()
        assert engine.stats().open_streams == 1
        assert queued.messages == []
        first.disconnect()
        await first.done()


async def test_leaving_in_prefill_ends_the_request_before_any_token(begin):
    async with engine_of(max_step_tokens=16) as engine:
        app = create_app(engine)
        request = begin("POST", CHAT, chat("x" * 1800), app=app)
        await until(lambda: engine.stats().open_streams == 1)
        request.disconnect()
        await request.done()
        await engine.wait_idle()
        assert engine.stats().core.output_tokens == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_in_decode_ends_the_request(begin, stream):
    async with engine_of() as engine:
        app = create_app(engine)
        watcher = begin("POST", CHAT, chat(stream=True, max_tokens=5), app=app)
        request = begin("POST", CHAT, chat(stream=stream), app=app)
        await watcher.wait_for(b"[DONE]")
        await watcher.done()
        request.disconnect()
        await request.done()
        await engine.wait_idle()
        assert engine.stats().core.output_tokens < 1000


async def test_a_socket_that_leaves_takes_queued_and_running_ones_with_it(connect):
    async with engine_of(num_slots=2) as engine:
        socket = await connect(app=create_app(engine))
        for number in range(6):
            socket.send(
                {
                    "type": "response.create",
                    "input": "hi",
                    "stream_id": f"lane-{number % 4}",
                    "ignore_eos": True,
                }
            )
        await socket.until("response.output_text.delta")
        socket.disconnect()
        await socket.task
        assert engine.stats().open_streams == 0


async def test_other_requests_do_not_notice_bad_ones(call, begin):
    async with engine_of() as engine:
        app = create_app(engine)
        alone = await call("POST", CHAT, chat(max_tokens=30), app=app)
        good = begin("POST", CHAT, chat(max_tokens=30), app=app)
        bad = [
            await call("POST", CHAT, body, app=app)
            for body in (
                b"{",
                chat(temperature=-1),
                chat("x" * 3000),
                chat(max_tokens=0),
                chat(logit_bias={"9999": 1}),
                {"messages": []},
            )
        ]
        await good.done()
        assert {answer.status for answer in bad} == {400}
        assert good.json["choices"] == alone.json["choices"]
