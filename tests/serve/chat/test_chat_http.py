"""The AI SDK's chat over HTTP, as its DefaultChatTransport speaks it."""

import asyncio

import pytest

from legato.protocol.errors import Overloaded
from legato.protocol.requests import ChatMessage, Delta, FinishReason

pytestmark = pytest.mark.anyio

HELLO = [
    {"type": "start-step"},
    {"type": "text-start", "id": "text-0"},
    {"type": "text-delta", "id": "text-0", "delta": "Hel"},
    {"type": "text-delta", "id": "text-0", "delta": "lo"},
    {"type": "text-end", "id": "text-0"},
    {"type": "finish-step"},
]


def message(role, *texts):
    parts = [{"type": "text", "text": text, "state": "done"} for text in texts]
    return {"id": "m", "role": role, "parts": parts}


def body(*messages, **fields):
    messages = messages or (message("user", "hi"),)
    return {
        "id": "chat-1",
        "messages": messages,
        "trigger": "submit-message",
        **fields,
    }


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat"])
async def test_an_answer_is_the_sdks_sequence_of_chunks(call, path):
    answer = await call("POST", path, body())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    start, *chunks, finish, done = answer.events
    assert start["type"] == "start"
    assert start["messageId"].startswith("msg_")
    assert chunks == HELLO
    assert (finish["type"], finish["finishReason"]) == ("finish", "stop")
    usage = finish["messageMetadata"]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (3, 2)
    assert usage["inputTokenDetails"]["cacheReadTokens"] == 1
    assert done == "[DONE]"


async def test_messages_become_turns_and_wishes_parameters(call, engine):
    assistant = message("assistant", "Hello")
    assistant["parts"].insert(0, {"type": "step-start"})
    assistant["parts"].append({"type": "data-weather", "data": {"x": 1}})
    sent = body(
        message("user", "a", "b"),
        message("assistant"),
        assistant,
        message("user", "and?"),
        system="be brief",
        max_output_tokens=7,
        temperature=0.5,
        model="scripted",
    )
    assert (await call("POST", "/api/chat", sent)).status == 200
    prompt, params, _ = engine.requests[0]
    assert prompt == (
        ChatMessage("system", "be brief"),
        ChatMessage("user", "ab"),
        ChatMessage("assistant", "Hello"),
        ChatMessage("user", "and?"),
    )
    assert (params.max_tokens, params.temperature) == (7, 0.5)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"messages": []}, 400, "messages"),
        ({"messages": "hi"}, 400, "messages"),
        ({"messages": [message("robot", "x")]}, 400, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, 400, "messages[0].parts"),
        ({"trigger": "other"}, 400, "trigger"),
        ({"temprature": 1}, 400, "temprature"),
        ({"max_output_tokens": 0}, 400, "max_output_tokens"),
        ({"model": "gpt"}, 404, "model"),
        ({"id": "x" * 257}, 400, "id"),
    ],
)
async def test_a_bad_body_is_refused_by_name(call, fields, status, param):
    answer = await call("POST", "/api/chat", body() | fields)
    assert (answer.status, answer.error["param"]) == (status, param)


@pytest.mark.parametrize("kind", ["file", "reasoning", "tool-weather", "dynamic-tool"])
async def test_parts_that_the_model_cannot_read_are_refused_by_name(call, kind):
    sent = body({"role": "user", "parts": [{"type": kind, "text": "x"}]})
    answer = await call("POST", "/api/chat", sent)
    assert answer.error["param"] == "messages[0].parts[0].type"
    assert kind in answer.error["message"]


async def test_a_refusal_before_the_first_token_has_a_status(call, engine):
    engine.script = [Overloaded("full", retry_after_s=1.0)]
    assert (await call("POST", "/api/chat", body())).status == 429
    engine.max_open = 0
    assert (await call("POST", "/api/chat", body())).status == 429
    assert (await call("GET", "/api/chat/chat-1/stream")).status == 204


async def test_a_failure_in_mid_answer_is_an_error_chunk(call, engine):
    engine.script = [Delta("Hel"), Overloaded("full", retry_after_s=1.0)]
    events = (await call("POST", "/api/chat", body())).events
    assert [event["type"] for event in events[-3:-1]] == ["text-end", "error"]
    assert "full" in events[-2]["errorText"]
    assert events[-1] == "[DONE]"


async def test_an_answer_cut_by_length_says_so(call, engine, deltas):
    engine.script = deltas("Hel", reason=FinishReason.LENGTH)
    events = (await call("POST", "/api/chat", body())).events
    assert events[-2]["finishReason"] == "length"


async def test_an_answer_without_text_is_still_a_message(call, engine, deltas):
    engine.script = deltas()
    events = (await call("POST", "/api/chat", body())).events
    kinds = [event["type"] for event in events[:-1]]
    assert kinds == ["start", "start-step", "finish-step", "finish"]


async def test_nothing_runs_before_and_after_an_answer(call):
    assert (await call("GET", "/api/chat/chat-1/stream")).status == 204
    await call("POST", "/api/chat", body())
    answer = await call("GET", "/api/chat/chat-1/stream")
    assert (answer.status, answer.body) == (204, b"")


async def test_who_left_reads_the_answer_again_from_its_beginning(
    begin, call, engine, deltas
):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = begin("POST", "/api/chat", body())
    await first.wait_for(b"Hel")
    first.disconnect()
    await first.done()
    assert engine.open == 1
    again = begin("GET", "/api/chat/chat-1/stream")
    await again.wait_for(b"Hel")
    go.set()
    events = (await again.done()).events
    assert events[0]["type"] == "start"
    assert events[1:-2] == HELLO
    assert engine.open == 0
    assert (await call("GET", "/api/chat/chat-1/stream")).status == 204


async def test_a_second_reader_reads_the_same_beside_the_first(begin, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = begin("POST", "/api/chat", body())
    await first.wait_for(b"Hel")
    second = begin("GET", "/api/chat/chat-1/stream")
    await second.wait_for(b"Hel")
    go.set()
    assert (await first.done()).events == (await second.done()).events


async def test_the_one_who_pulls_may_leave_in_mid_pull(begin, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = begin("POST", "/api/chat", body())
    await first.wait_for(b"Hel")
    second = begin("GET", "/api/chat/chat-1/stream")
    await second.wait_for(b"Hel")
    first.disconnect()
    await first.done()
    go.set()
    assert (await second.done()).events[1:-2] == HELLO


async def test_an_answer_that_nobody_comes_back_for_is_let_go(begin, make_app, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    app = make_app(resume_grace_s=0.01)
    first = begin("POST", "/api/chat", body(), app=app)
    await first.wait_for(b"Hel")
    first.disconnect()
    await first.done()
    await engine.until_open(0)
    again = await begin("GET", "/api/chat/chat-1/stream", app=app).done()
    assert again.status == 204


async def test_who_leaves_before_the_first_token_is_waited_for_too(
    begin, make_app, engine
):
    engine.script = [asyncio.Event()]
    app = make_app(resume_grace_s=0.01)
    first = begin("POST", "/api/chat", body(), app=app)
    await engine.until_open(1)
    first.disconnect()
    await first.done()
    await engine.until_open(0)


async def test_a_new_turn_ends_the_one_that_is_read(begin, call, engine, deltas):
    engine.script = [Delta("Hel"), asyncio.Event()]
    first = begin("POST", "/api/chat", body())
    other = begin("POST", "/api/chat", body(id="chat-2"))
    for one in (first, other):
        await one.wait_for(b"Hel")
    engine.script = deltas("new")
    assert b"new" in (await call("POST", "/api/chat", body())).body
    assert (await first.done()).events[-2] == {"type": "abort"}
    assert engine.open == 1
    other.disconnect()
    await other.done()


async def test_a_new_turn_takes_the_place_of_one_that_waits(
    begin, call, engine, deltas
):
    engine.script = [Delta("Hel"), asyncio.Event()]
    first = begin("POST", "/api/chat", body())
    await first.wait_for(b"Hel")
    first.disconnect()
    await first.done()
    engine.script = deltas("new")
    answer = await call("POST", "/api/chat", body())
    assert b"new" in answer.body
    assert engine.open == 0


@pytest.mark.slow
async def test_answers_that_wait_are_bounded_in_number(begin, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    for number in range(70):
        one = begin("POST", "/api/chat", body(id=f"chat-{number}"))
        await one.wait_for(b"Hel")
        one.disconnect()
        await one.done()
    assert engine.open == 64


async def test_an_answer_too_long_to_keep_is_read_once(
    begin, call, make_app, engine, deltas
):
    go = asyncio.Event()
    app = make_app(replay_bytes=200)
    engine.script = [*[Delta("x" * 50)] * 8, Delta("yes"), go, *deltas("end")]
    first = begin("POST", "/api/chat", body(), app=app)
    await first.wait_for(b"yes")
    assert (await call("GET", "/api/chat/chat-1/stream", app=app)).status == 204
    go.set()
    events = (await first.done()).events
    assert sum(event != "[DONE]" and "delta" in event for event in events) == 10
    engine.script = [*[Delta("x" * 50)] * 8, Delta("yes"), asyncio.Event()]
    second = begin("POST", "/api/chat", body(), app=app)
    await second.wait_for(b"yes")
    second.disconnect()
    await second.done()
    assert engine.open == 0


async def test_a_slow_reader_stops_the_pulling(begin, engine, deltas):
    engine.script = deltas(*["x"] * 1000)
    first = begin("POST", "/api/chat", body())
    first.stall()
    await engine.until_open(1)
    for _ in range(100):
        await asyncio.sleep(0)
    assert engine.pulled <= 2
    first.resume()
    events = (await first.done()).events
    assert sum(event != "[DONE]" and "delta" in event for event in events) == 1000


async def test_chats_of_other_keys_are_not_seen(begin, call, make_app, engine):
    app = make_app(api_keys=("a", "b"))
    engine.script = [Delta("Hel"), asyncio.Event()]
    mine, theirs = ({"authorization": f"Bearer {key}"} for key in "ab")
    first = begin("POST", "/api/chat", body(), mine, app=app)
    await first.wait_for(b"Hel")
    answer = await call("GET", "/api/chat/chat-1/stream", headers=theirs, app=app)
    assert answer.status == 204
    first.disconnect()
    await first.done()


async def test_a_drain_waits_for_those_who_read(begin, app, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = begin("POST", "/api/chat", body())
    await first.wait_for(b"Hel")
    app.gate.close()
    assert app.gate.inside == 1
    go.set()
    await first.done()
    await app.gate.emptied()
    assert (await begin("POST", "/api/chat", body()).done()).status == 503
