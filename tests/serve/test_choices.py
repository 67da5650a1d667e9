"""Several answers to one request: indices, ends, failures, leaving."""

import asyncio

import msgspec
import pytest

from legato.protocol.errors import DeadlineExceeded, EngineFailed, Overloaded
from legato.protocol.requests import Delta, FinishReason, Usage
from legato.protocol.steps import TokenLogprobs

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def texts_of(events, of_choice):
    """Each choice's text, and the order of its finish reasons."""
    texts, reasons = {}, []
    for choice in (choice for event in events for choice in event["choices"]):
        index = choice["index"]
        texts[index] = texts.get(index, "") + of_choice(choice)
        if choice["finish_reason"]:
            reasons.append((index, choice["finish_reason"]))
    return texts, sorted(reasons)


def delta_text(choice):
    return choice["delta"].get("content") or ""


async def test_every_choice_has_its_index_text_and_end(call, engine, deltas):
    engine.scripts.extend(
        [deltas("a", "b"), deltas("c", reason=FinishReason.LENGTH), deltas("d")]
    )
    answer = await call("POST", CHAT, {**HELLO, "n": 3})
    choices = answer.json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in choices] == ["ab", "c", "d"]
    assert [c["finish_reason"] for c in choices] == ["stop", "length", "stop"]
    usage = answer.json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 4)
    assert usage["total_tokens"] == 7
    assert engine.open == 0


async def test_a_stream_ends_every_choice_and_is_done_once(call, engine, deltas):
    engine.scripts.extend([deltas("a", "b"), deltas("c"), deltas("d", "e", "f")])
    body = {
        **HELLO,
        "n": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    *chunks, usage, done = (await call("POST", CHAT, body)).events
    assert done == "[DONE]"
    texts, reasons = texts_of(chunks, delta_text)
    assert texts == {0: "ab", 1: "c", 2: "def"}
    assert reasons == [(0, "stop"), (1, "stop"), (2, "stop")]
    assert len({chunk["id"] for chunk in chunks}) == 1
    for index in range(3):
        own = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        assert own[0]["delta"]["role"] == "assistant"
        assert own[-1]["delta"] == {}
        assert [bool(c["finish_reason"]) for c in own[:-1]] == [False] * (len(own) - 1)
    assert {chunk["usage"] for chunk in chunks} == {None}
    assert usage["usage"]["completion_tokens"] == 6
    assert usage["usage"]["prompt_tokens"] == 3


async def test_a_choice_does_not_wait_for_another(begin, engine, deltas):
    hold = asyncio.Event()
    engine.scripts.extend([[hold, *deltas("late")], deltas("early")])
    request = begin("POST", TEXT, {"prompt": "a", "n": 2, "stream": True})
    await request.wait_for(
        b'"index":1,"text":"","logprobs":null,"finish_reason":"stop"'
    )
    assert b'"index":0' not in request.body
    hold.set()
    *chunks, done = (await request.done()).events
    assert done == "[DONE]"
    texts, _ = texts_of(chunks, lambda choice: choice["text"])
    assert texts == {0: "late", 1: "early"}


async def test_text_offsets_are_each_choices_own(call, engine):
    entry = TokenLogprobs(-0.5)
    end = Delta("", (), (), FinishReason.STOP, Usage(1, 2))
    script = [Delta("A", (65,), (entry,)), Delta("B", (66,), (entry,)), end]
    engine.script = script
    body = {"prompt": "a", "n": 2, "logprobs": 0, "stream": True}
    *chunks, _ = (await call("POST", TEXT, body)).events
    choices = [chunk["choices"][0] for chunk in chunks]
    for index in range(2):
        offsets = [
            choice["logprobs"]["text_offset"][0]
            for choice in choices
            if choice["index"] == index and choice["logprobs"]
        ]
        assert offsets == [0, 1]


async def test_several_prompts_are_numbered_before_their_answers(call, engine, deltas):
    engine.scripts.extend([deltas(text) for text in "abcd"])
    answer = await call("POST", TEXT, {"prompt": ["x", "y"], "n": 2, "seed": 5})
    assert [choice["text"] for choice in answer.json["choices"]] == ["a", "b", "c", "d"]
    assert [choice["index"] for choice in answer.json["choices"]] == [0, 1, 2, 3]
    asked = [(prompt, params.seed) for prompt, params, _ in engine.requests]
    assert asked == [("x", 5), ("x", 6), ("y", 5), ("y", 6)]
    assert answer.json["usage"]["prompt_tokens"] == 6


async def test_a_prompt_that_is_too_long_is_refused_before_any_runs(call, engine):
    answer = await call("POST", TEXT, {"prompt": [[1], [1] * 512]})
    assert answer.error["code"] == "context_length_exceeded"
    assert engine.requests == []


@pytest.mark.parametrize("n", [0, 17, 1_000_000, "2", 1.5, True])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_n_out_of_range_or_no_integer_is_refused_by_name(call, engine, path, n):
    answer = await call(
        "POST", path, {**(HELLO if path == CHAT else {"prompt": "a"}), "n": n}
    )
    assert answer.status == 400
    assert answer.error["param"] == "n"
    assert engine.requests == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Overloaded("full", retry_after_s=1), 429, "rate_limit_exceeded"),
        (DeadlineExceeded("late"), 504, "deadline_exceeded"),
    ],
)
async def test_one_that_fails_first_fails_the_request_with_its_status(
    call, engine, stream, error, status, code
):
    engine.scripts.extend([[asyncio.Event()], [error], [asyncio.Event()]])
    answer = await call("POST", CHAT, {**HELLO, "n": 3, "stream": stream})
    assert (answer.status, answer.error["code"]) == (status, code)
    assert engine.open == 0


@pytest.mark.parametrize("error", [EngineFailed("secret"), DeadlineExceeded("late")])
async def test_one_that_fails_in_mid_stream_ends_all_after_what_came_before(
    begin, engine, error
):
    hold = asyncio.Event()
    engine.scripts.extend([[Delta("He"), asyncio.Event()], [hold, Delta("llo"), error]])
    request = begin("POST", CHAT, {**HELLO, "n": 2, "stream": True})
    await request.wait_for(b"He")
    hold.set()
    *chunks, told, done = (await request.done()).events
    assert texts_of(chunks, delta_text) == ({0: "He", 1: "llo"}, [])
    assert told["error"]["code"] == error.code
    assert done == "[DONE]"
    assert engine.open == 0


async def test_a_door_that_shuts_behind_the_first_refuses_all(call, engine):
    engine.max_open = 2
    answer = await call("POST", CHAT, {**HELLO, "n": 3})
    assert answer.status == 429
    assert len(engine.requests) == 2
    assert engine.open == 0


async def test_one_that_the_server_cuts_cuts_the_request(call, engine, deltas):
    cut = deltas("x", reason=FinishReason.CANCELLED)
    engine.scripts.extend([[asyncio.Event()], cut])
    answer = await call("POST", CHAT, {**HELLO, "n": 2})
    assert (answer.status, answer.error["code"]) == (503, "engine_closed")
    assert engine.open == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_lets_go_of_all(begin, engine, stream):
    engine.script = [Delta("He"), asyncio.Event()]
    request = begin("POST", CHAT, {**HELLO, "n": 4, "stream": stream})
    await engine.until_open(4)
    request.disconnect()
    await request.done()
    assert engine.open == 0


async def test_a_reader_that_stalls_stops_the_pulling_of_all(begin, engine, make_app):
    engine.script = [Delta("x")] * 1000
    request = begin(
        "POST",
        CHAT,
        {**HELLO, "n": 4, "stream": True},
        app=make_app(send_deadline_s=0.01),
    )
    request.stall()
    await request.done()
    assert engine.open == 0
    assert engine.pulled <= 3 * 4


async def test_what_comes_together_is_sent_together(begin, engine):
    holds = [asyncio.Event() for _ in range(4)]
    end = Delta("", (), (), FinishReason.STOP, Usage(1, 1))
    engine.scripts.extend([hold, Delta("x"), end] for hold in holds)
    request = begin("POST", TEXT, {"prompt": "a", "n": 4, "stream": True})
    await engine.until_open(4)
    for hold in holds:
        hold.set()
    await request.done()
    bodies = [m["body"] for m in request.messages if m.get("body")]
    assert len(bodies) < 4 * 2
    assert msgspec.json.decode(bodies[0].split(b"\n")[0].removeprefix(b"data: "))


async def test_terms_go_to_the_engine_with_every_choice(call, engine):
    body = {
        **HELLO,
        "n": 2,
        "priority": -7,
        "ttft_deadline_s": 2,
        "total_deadline_s": 9,
    }
    assert (await call("POST", CHAT, body)).status == 200
    terms = {"priority": -7, "ttft_deadline_s": 2.0, "total_deadline_s": 9.0}
    assert engine.terms == [terms, terms]
