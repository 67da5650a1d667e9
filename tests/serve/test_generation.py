"""Answers over HTTP, one piece and streamed, on both paths."""

import asyncio

import pytest

from legato.protocol.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    InvalidRequest,
    Overloaded,
)
from legato.protocol.requests import ChatMessage, Delta, FinishReason, Usage
from legato.protocol.steps import TokenLogprobs

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


async def test_chat_answers_in_one_piece(call, engine):
    answer = await call("POST", CHAT, {**HELLO, "user": "ada", "seed": 7})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "scripted"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"]["total_tokens"] == 5
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}
    ((prompt, params, tenant),) = engine.requests
    assert prompt == (ChatMessage("user", "hi"),)
    assert (params.seed, params.temperature, tenant) == (7, 0.25, "ada")


async def test_chat_streams_role_text_reason_and_done(call, engine):
    answer = await call("POST", CHAT, {**HELLO, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *chunks, done = answer.events
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert [d["content"] for d in deltas[1:-1]] == ["Hel", "lo"]
    assert deltas[-1] == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None, None, None, "stop"]
    assert not any("usage" in chunk for chunk in chunks)


async def test_usage_comes_last_and_only_when_asked(call):
    body = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage, done = (await call("POST", CHAT, body)).events
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 2
    assert {chunk["usage"] for chunk in chunks} == {None}


async def test_a_cut_answer_says_length(call, engine, deltas):
    engine.script = deltas("x", reason=FinishReason.LENGTH)
    answer = await call("POST", CHAT, HELLO)
    assert answer.json["choices"][0]["finish_reason"] == "length"


async def test_the_last_delta_may_carry_text(call, engine):
    engine.script = [Delta("all", (1,), (), FinishReason.STOP, Usage(1, 1))]
    *chunks, _ = (await call("POST", CHAT, {**HELLO, "stream": True})).events
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert texts == ["", "all", None]


async def test_text_completion_takes_ids_and_defaults_to_sixteen_tokens(call, engine):
    answer = await call("POST", TEXT, {"prompt": [5, 6]})
    assert answer.json["object"] == "text_completion"
    assert answer.json["choices"][0]["text"] == "Hello"
    prompt, params, _ = engine.requests[0]
    assert prompt == (5, 6)
    assert params.max_tokens == 16


async def test_text_completion_streams(call):
    *chunks, done = (await call("POST", TEXT, {"prompt": "a", "stream": True})).events
    assert done == "[DONE]"
    assert [c["choices"][0]["text"] for c in chunks] == ["Hel", "lo", ""]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_logprobs_are_told_whole_and_streamed(call, engine):
    entry = TokenLogprobs(-0.5, (65, 66), (-0.5, -1.5))
    end = Delta("", (), (), FinishReason.STOP, Usage(1, 1))
    engine.script = [Delta("A", (65,), (entry,)), end]
    asked = {**HELLO, "logprobs": True, "top_logprobs": 2}
    whole = (await call("POST", CHAT, asked)).json["choices"][0]["logprobs"]
    assert whole["content"] == [
        {
            "token": "A",
            "logprob": -0.5,
            "bytes": [65],
            "top_logprobs": [
                {"token": "A", "logprob": -0.5, "bytes": [65]},
                {"token": "B", "logprob": -1.5, "bytes": [66]},
            ],
        }
    ]
    chunks = (await call("POST", CHAT, {**asked, "stream": True})).events
    assert chunks[1]["choices"][0]["logprobs"] == whole
    text = (await call("POST", TEXT, {"prompt": "a", "logprobs": 2})).json
    assert text["choices"][0]["logprobs"] == {
        "tokens": ["A"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"A": -0.5, "B": -1.5}],
        "text_offset": [0],
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (InvalidRequest("bad", field="prompt"), 400, "invalid_value", "messages"),
        (ContextOverflow(9, 5, "x"), 400, "context_length_exceeded", "messages"),
        (Overloaded("full", retry_after_s=2.5), 429, "rate_limit_exceeded", None),
        (DeadlineExceeded("late"), 504, "deadline_exceeded", None),
        (EngineClosed("gone"), 503, "engine_closed", None),
        (EngineFailed("secret"), 500, "engine_failed", None),
        (ValueError("secret"), 500, "internal_error", None),
    ],
)
async def test_an_error_before_the_first_delta_has_its_own_status(
    call, engine, error, status, code, param, stream
):
    engine.script = [error]
    answer = await call("POST", CHAT, {**HELLO, "stream": stream})
    assert answer.status == status
    assert (answer.error["code"], answer.error["param"]) == (code, param)
    assert "secret" not in answer.error["message"]
    assert engine.open == 0


async def test_a_refusal_at_the_door_says_when_to_come_back(call, engine):
    engine.refusal = Overloaded("full", retry_after_s=2.5)
    answer = await call("POST", CHAT, HELLO)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.headers["retry-after-ms"] == "2500"


@pytest.mark.parametrize("error", [EngineFailed("secret"), KeyError("secret")])
async def test_an_error_in_mid_stream_is_an_event_then_the_end(call, engine, error):
    engine.script = [Delta("He"), error]
    answer = await call("POST", CHAT, {**HELLO, "stream": True})
    assert answer.status == 200
    *_, event, done = answer.events
    assert event["error"]["type"] == "server_error"
    assert "secret" not in event["error"]["message"]
    assert done == "[DONE]"
    assert answer.messages[-1].get("more_body", False) is False


async def test_an_answer_cut_by_the_server_is_not_a_natural_end(call, engine, deltas):
    engine.script = deltas("He", reason=FinishReason.CANCELLED)
    answer = await call("POST", CHAT, HELLO)
    assert answer.status == 503
    streamed = await call("POST", CHAT, {**HELLO, "stream": True})
    assert streamed.events[-2]["error"]["code"] == "engine_closed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_token_lets_go(
    begin, engine, stream
):
    engine.script = [asyncio.Event()]
    request = begin("POST", CHAT, {**HELLO, "stream": stream})
    await engine.until_open(1)
    request.disconnect()
    await request.done()
    assert engine.open == 0
    assert request.messages == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_in_mid_answer_lets_go(begin, engine, stream):
    reached = asyncio.Event()

    class Reached(asyncio.Event):
        async def wait(self):
            reached.set()
            return await super().wait()

    engine.script = [Delta("He"), Reached()]
    request = begin("POST", CHAT, {**HELLO, "stream": stream})
    await reached.wait()
    request.disconnect()
    await request.done()
    assert engine.open == 0


async def test_a_client_that_leaves_before_its_body_is_complete_is_forgotten(
    begin, engine
):
    request = begin("POST", CHAT, [b"{", b'"messages"'])
    request.disconnect()
    await request.done()
    assert engine.requests == []


async def test_a_reader_that_stalls_stops_the_pulling_and_is_cut(
    begin, engine, make_app
):
    engine.script = [Delta("x")] * 1000
    request = begin(
        "POST",
        CHAT,
        {**HELLO, "stream": True},
        app=make_app(send_deadline_s=0.01),
    )
    aborted = asyncio.Event()
    request.scope["extensions"]["legato.abort"] = aborted.set
    request.stall()
    await request.done()
    assert aborted.is_set()
    assert engine.open == 0
    assert engine.pulled == 1


async def test_an_unknown_model_is_404_and_named(call):
    answer = await call("POST", CHAT, {**HELLO, "model": "gpt"})
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert "scripted" in answer.error["message"]


async def test_a_drain_refuses_newcomers_and_lets_the_others_finish(
    begin, call, engine, app
):
    hold = asyncio.Event()
    engine.script = [
        Delta("He"),
        hold,
        Delta("", (), (), FinishReason.STOP, Usage(1, 1)),
    ]
    early = begin("POST", CHAT, HELLO)
    await engine.until_open(1)
    app.gate.close()
    late = await call("POST", CHAT, HELLO)
    assert late.status == 503
    assert "retry-after" in late.headers
    assert app.gate.inside == 1
    hold.set()
    await early.done()
    assert early.status == 200
    await app.gate.emptied()


async def test_more_ids_than_the_context_holds_are_refused_at_the_door(call, engine):
    answer = await call("POST", TEXT, {"prompt": [1] * 512})
    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert answer.error["param"] == "prompt"
    assert engine.requests == []
    assert (await call("POST", TEXT, {"prompt": [1] * 511})).status == 200
