"""What must answer while something else is slow."""

import asyncio
import logging

import httpx
import msgspec
import pytest

from legato.engine import FakeModel
from legato.gpu.fake import FAKE_LIMITS

from .live_server import assert_pages_are_back, events_of, running

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
CREATE = {"type": "response.create", "input": "hi"}


def chat(text, **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.slow
async def test_health_answers_before_a_long_prefill_ends():
    limits = msgspec.structs.replace(FAKE_LIMITS, max_step_tokens=16)
    async with (
        running(FakeModel(step_s=0.02, limits=limits)) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        long = chat("x" * 1500, max_tokens=1)
        prefill = asyncio.ensure_future(client.post(CHAT, json=long))
        for _ in range(5):
            assert (await client.get("/health")).status_code == 200
        assert not prefill.done()
        assert (await prefill).status_code == 200


@pytest.mark.slow
async def test_a_request_of_27_megabytes_is_refused_while_health_answers():
    async with (
        running(FakeModel()) as run,
        httpx.AsyncClient(base_url=run.url, timeout=30) as client,
    ):
        huge = asyncio.ensure_future(client.post(CHAT, json=chat("x" * 27 * 2**20)))
        assert (await client.get("/health")).status_code == 200
        assert (await huge).status_code == 413
        # As large as may be, and far beyond the context: never encoded.
        large = asyncio.ensure_future(client.post(CHAT, json=chat("x" * 7 * 2**20)))
        assert (await client.get("/health")).status_code == 200
        assert (await large).status_code == 400
        await assert_pages_are_back(run.engine)


async def test_pings_are_answered_in_mid_stream_though_the_client_says_nothing():
    async with running(FakeModel(step_s=0.002)) as run, run.connect() as websocket:
        asked = {**CREATE, "ignore_eos": True, "max_output_tokens": 100}
        await websocket.send(msgspec.json.encode(asked).decode())
        await websocket.recv()
        pong = await websocket.ping()
        # Whatever streams meanwhile, the pong comes before the end.
        ended = asyncio.ensure_future(events_of(websocket))
        await asyncio.wait([pong, ended], return_when=asyncio.FIRST_COMPLETED)
        assert pong.done()
        assert not ended.done()
        await ended


async def test_the_servers_own_pings_outlive_a_stream_longer_than_their_timeout():
    async with (
        running(
            FakeModel(step_s=0.002), ping_interval_s=0.02, ping_timeout_s=0.1
        ) as run,
        run.connect() as websocket,
    ):
        asked = {**CREATE, "ignore_eos": True, "max_output_tokens": 150}
        await websocket.send(msgspec.json.encode(asked).decode())
        events = await events_of(websocket)
        assert events[-1]["response"]["usage"]["output_tokens"] == 150


@pytest.mark.slow
async def test_a_key_is_in_no_log_and_in_no_answer(caplog):
    caplog.set_level(logging.DEBUG)
    async with running(FakeModel(), api_keys=("sk-secret",)) as run:
        keys = (
            {"authorization": "Bearer sk-secret"},
            {"authorization": "Bearer sk-wrong"},
        )
        async with httpx.AsyncClient(base_url=run.url) as client:
            for headers in keys:
                for path in ("/v1/models", "/nowhere", "/metrics", "/debug/stats"):
                    answer = await client.get(path, headers=headers)
                    assert b"sk-" not in answer.content
                    assert not any("sk-" in value for value in answer.headers.values())
        async with run.connect(additional_headers=keys[0]) as websocket:
            await websocket.send("{")
            assert "sk-" not in await websocket.recv()
    ours = [r for r in caplog.records if r.name.startswith(("legato", "uvicorn"))]
    assert not [record for record in ours if "sk-" in record.getMessage()]
