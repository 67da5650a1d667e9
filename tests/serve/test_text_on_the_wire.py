"""Text as clients get it: only what was generated, once, whole."""

import httpx
import msgspec
import pytest

from legato.engine import FakeModel

from .live_server import events_of, running

pytestmark = pytest.mark.anyio

EMOJI = "🌍".encode()
ASK = {"messages": [{"role": "user", "content": "hi"}]}
CREATE = {"type": "response.create", "input": "hi"}


async def stream(client, path, body):
    """The data of each server-sent event but the last, decoded, and their bytes."""
    answer = await client.post(path, json={**body, "stream": True})
    lines = [line for line in answer.text.splitlines() if line]
    assert lines.pop() == "data: [DONE]"
    return [msgspec.json.decode(line[6:]) for line in lines], len(answer.content)


@pytest.mark.parametrize("cut", [1, 2, 3])
async def test_a_prompt_that_ends_inside_a_character_leaks_none_of_it(cut):
    script = EMOJI[cut:] + b"!"
    async with (
        running(FakeModel(script=script)) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        body = {"prompt": list(b"hi " + EMOJI[:cut])}
        whole = (await client.post("/v1/completions", json=body)).json()
        assert whole["choices"][0]["text"] == script.decode("utf-8", "replace")
        chunks, _ = await stream(client, "/v1/completions", body)
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        assert text == script.decode("utf-8", "replace")


@pytest.mark.parametrize("size", range(1, 5))
async def test_a_character_is_never_shown_in_parts(size):
    text = {1: "a", 2: "é", 3: "한", 4: "🌍"}[size] * 8
    async with running(FakeModel(script=text.encode())) as run:
        async with httpx.AsyncClient(base_url=run.url) as client:
            chunks, _ = await stream(client, "/v1/chat/completions", ASK)
        pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
        async with run.connect() as websocket:
            await websocket.send(msgspec.json.encode(CREATE).decode())
            events = await events_of(websocket)
    deltas = [event["delta"] for event in events if "delta" in event]
    for parts in (pieces, deltas):
        assert "".join(parts) == text
        assert not any("\ufffd" in part for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_the_bytes_of_a_stream_grow_with_its_tokens_and_no_faster(path):
    async with (
        running(FakeModel(script=b"x" * 1000)) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        body = {"prompt": "hi"} if path == "/v1/completions" else ASK
        sizes = []
        for most in (100, 200, 400):
            chunks, size = await stream(client, path, {**body, "max_tokens": most})
            # However many deltas were merged, each chunk costs the same beside it.
            sizes.append((size - most) / len(chunks))
        assert max(sizes) < 1.1 * min(sizes)


async def test_the_deltas_of_a_response_hold_no_text_twice():
    async with (
        running(FakeModel(script=b"0123456789" * 30)) as run,
        run.connect() as websocket,
    ):
        await websocket.send(msgspec.json.encode(CREATE).decode())
        events = await events_of(websocket)
    deltas = [event["delta"] for event in events if "delta" in event]
    assert "".join(deltas) == "0123456789" * 30
    (done,) = [e for e in events if e["type"] == "response.output_text.done"]
    assert done["text"] == "".join(deltas)
