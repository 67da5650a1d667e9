"""The real server on a real port, over the real engine on a paced device."""

import asyncio
import contextlib
import random
import socket

import httpx
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from legato.engine import Engine, FakeModel
from legato.gpu.fake import FAKE_LIMITS
from legato.protocol.errors import InvalidModel, InvalidSetting
from legato.serve import ServeSettings, serve

from .live_server import (
    TERMINAL,
    assert_pages_are_back,
    closing_of,
    events_of,
    running,
)

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
CREATE = {"type": "response.create", "input": "hi"}


async def test_chat_answers_whole_and_streamed():
    async with (
        running(FakeModel(script="Grüße 🌍".encode())) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        whole = (await client.post(CHAT, json=HELLO)).json()
        assert whole["choices"][0]["message"]["content"] == "Grüße 🌍"
        assert whole["choices"][0]["finish_reason"] == "stop"
        async with client.stream(
            "POST", CHAT, json={**HELLO, "stream": True}
        ) as answer:
            lines = [line async for line in answer.aiter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        chunks = [msgspec.json.decode(line[6:]) for line in lines[:-1]]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert "".join(d.get("content", "") for d in deltas) == "Grüße 🌍"
        await assert_pages_are_back(run.engine)


async def test_a_socket_serves_responses_one_after_another():
    async with (
        running(FakeModel(script=b"Hello")) as run,
        run.connect() as websocket,
    ):
        for _ in range(3):
            await websocket.send(msgspec.json.encode(CREATE).decode())
            events = await events_of(websocket)
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"
        await websocket.send("{")
        assert msgspec.json.decode(await websocket.recv())["type"] == "error"


async def test_a_prompt_longer_than_the_context_is_refused_on_both_paths():
    long = "x" * 5000
    async with running(FakeModel()) as run:
        async with httpx.AsyncClient(base_url=run.url) as client:
            message = {"role": "user", "content": long}
            answer = await client.post(CHAT, json={"messages": [message]})
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "context_length_exceeded"
            assert answer.json()["error"]["param"] == "messages"
        async with run.connect() as websocket:
            await websocket.send(
                msgspec.json.encode({**CREATE, "input": long}).decode()
            )
            *_, error, failed = await events_of(websocket)
            assert error["error"]["code"] == "context_length_exceeded"
            assert failed["type"] == "response.failed"
        await assert_pages_are_back(run.engine)


async def test_a_foreign_page_is_refused_at_the_handshake():
    async with running(FakeModel()) as run:
        with pytest.raises(InvalidStatus) as caught:
            await run.connect(origin="https://evil.example").__aenter__()
        assert caught.value.response.status_code == 403
        async with run.connect(subprotocols=["secret-key"]) as websocket:
            assert websocket.subprotocol is None


async def test_a_message_over_the_limit_closes_with_1009():
    async with (
        running(FakeModel(), max_frame_bytes=1000) as run,
        run.connect() as websocket,
    ):
        await websocket.send("x" * 1001)
        assert (await closing_of(websocket)).rcvd.code == 1009


async def test_http_clients_that_leave_in_mid_answer_free_their_pages():
    async with running(FakeModel(step_s=0.001)) as run:
        async with httpx.AsyncClient(base_url=run.url) as client:
            body = {**HELLO, "stream": True, "ignore_eos": True}
            async with client.stream("POST", CHAT, json=body) as answer:
                async for _ in answer.aiter_lines():
                    break
            with contextlib.suppress(httpx.ReadTimeout):
                # It connects, however busy the machine is, and then leaves.
                leave = httpx.Timeout(None, read=0.02)
                await client.post(
                    CHAT, json={**HELLO, "ignore_eos": True}, timeout=leave
                )
        await assert_pages_are_back(run.engine)


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_drain_finishes_answers_then_closes_with_1012(resumable):
    async with running(FakeModel(step_s=0.002)) as run, run.connect() as websocket:
        asked = {**CREATE, "max_output_tokens": 60, "ignore_eos": True}
        asked["resumable"] = resumable
        await websocket.send(msgspec.json.encode(asked).decode())
        first = msgspec.json.decode(await websocket.recv())
        assert first["type"] == "response.created"
        run.server.stop()
        async with httpx.AsyncClient(base_url=run.url) as client:
            health = await client.get("/health")
            assert (health.status_code, health.json()["status"]) == (503, "draining")
            late = await client.post(CHAT, json=HELLO)
            assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        events = await events_of(websocket)
        assert events[-1]["type"] == "response.incomplete"
        assert events[-1]["response"]["usage"]["output_tokens"] == 60
        assert (await closing_of(websocket)).rcvd.code == 1012


@pytest.mark.parametrize("resumable", [False, True])
async def test_an_answer_that_outlasts_the_drain_has_its_end_before_1012(resumable):
    model = FakeModel(step_s=0.002)
    async with running(model, drain_s=0.01) as run, run.connect() as websocket:
        asked = {**CREATE, "max_output_tokens": 2000, "ignore_eos": True}
        asked["resumable"] = resumable
        await websocket.send(msgspec.json.encode(asked).decode())
        await websocket.recv()
        run.server.stop()
        events = await events_of(websocket)
        assert events[-1]["type"] == "response.failed"
        assert (await closing_of(websocket)).rcvd.code == 1012


async def test_a_model_that_cannot_be_opened_ends_the_server():
    class Broken:
        name = "broken"

        def text(self):
            raise InvalidModel("this file is truncated; download it again")

        def build(self):
            raise AssertionError("never reached")

    with pytest.raises(InvalidModel, match="truncated"):
        await serve(Engine(Broken()), ServeSettings(port=0))


async def test_a_port_in_use_is_said_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidSetting, match=f"127.0.0.1:{port}"):
            await serve(Engine(FakeModel()), ServeSettings(port=port))


@pytest.mark.slow
async def test_a_client_that_reads_nothing_is_cut_and_nobody_else_notices():
    async with running(FakeModel(step_s=0.0005), send_deadline_s=0.2) as run:
        deaf = await run.connect(max_queue=1).__aenter__()
        deaf.transport.pause_reading()
        babble = {**CREATE, "max_output_tokens": 1500, "ignore_eos": True}
        for lane in range(20):
            frame = {**babble, "stream_id": str(lane), "include": LOGPROBS}
            await deaf.send(msgspec.json.encode(frame).decode())
        async with run.connect() as websocket:
            await websocket.send(msgspec.json.encode(CREATE).decode())
            assert (await events_of(websocket))[-1]["type"] in TERMINAL
        await assert_pages_are_back(run.engine)
        assert run.engine.stats().core.output_tokens < 20 * 1500
        deaf.transport.resume_reading()
        assert isinstance(await closing_of(deaf), ConnectionClosed)


@pytest.mark.slow
async def test_an_event_stream_that_nobody_reads_is_cut():
    body = {**HELLO, "stream": True, "ignore_eos": True, "max_tokens": 20_000}
    data = msgspec.json.encode({**body, "logprobs": True, "top_logprobs": 20})
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    # Longer than what the kernel's own buffers take.
    roomy = msgspec.structs.replace(FAKE_LIMITS, max_context=25_000, num_pages=2000)
    model = FakeModel(step_s=0.0005, limits=roomy)
    async with running(model, send_deadline_s=0.2) as run:
        port = int(run.url.rpartition(":")[2])
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", port))
            deaf.sendall(head.encode() + data)
            deaf.setblocking(False)
            await asyncio.get_running_loop().sock_recv(deaf, 1)
            await run.engine.wait_idle()
            assert run.engine.stats().core.output_tokens < 20_000
        await assert_pages_are_back(run.engine)


LOGPROBS = ["message.output_text.logprobs"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_64_sockets_a_third_cancelled_at_random_give_every_page_back(seed):
    chance = random.Random(seed)
    async with running(FakeModel(step_s=0.0005)) as run:

        async def talk(number):
            async with run.connect() as websocket:
                stays = number % 3 > 0
                most = 60 if stays else 1000
                asked = {**CREATE, "max_output_tokens": most, "ignore_eos": True}
                asked["input"] = f"{number} " + "x" * chance.randrange(200)
                await websocket.send(msgspec.json.encode(asked).decode())
                if stays:
                    return (await events_of(websocket))[-1]["type"]
                events = await events_of(websocket, chance.randrange(1, 20))
                if number % 2:
                    return "left"
                if events[-1]["type"] in TERMINAL:
                    return events[-1]["type"]
                await websocket.send('{"type": "response.cancel"}')
                return (await events_of(websocket))[-1]["type"]

        ends = await asyncio.gather(*(talk(number) for number in range(64)))
        for number, end in enumerate(ends):
            if number % 3:
                assert end == "response.incomplete"
            elif number % 2:
                assert end == "left"
            else:
                assert end in ("response.cancelled", "response.incomplete")
        assert "response.cancelled" in ends
        await assert_pages_are_back(run.engine)
