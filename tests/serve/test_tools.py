"""Functions and forms of answers, over HTTP and the real engine on a paced device."""

import json

import httpx
import jsonschema
import msgspec
import pytest

from legato.engine import FakeModel

from .live_server import assert_pages_are_back, running

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Will it rain?"}
ARGUMENTS = {
    "type": "object",
    "properties": {"where": {"enum": ["here", "there"]}, "days": {"type": "boolean"}},
    "required": ["where", "days"],
    "additionalProperties": False,
}
FORECAST = {
    "type": "function",
    "function": {"name": "forecast", "description": "Ask.", "parameters": ARGUMENTS},
}
NOW = {"type": "function", "function": {"name": "now"}}
TEXT = 'Let me see — both.\n<tool_call>\n{"name": "forecast", "arguments": '
TEXT += '{"where": "hëre 🌍", "n": [1, {"a": "}"}]}}\n</tool_call>\n<tool_call>\n'
TEXT += '{"name": "now", "arguments": {}}\n</tool_call>'
WROTE = [("forecast", '{"where": "hëre 🌍", "n": [1, {"a": "}"}]}'), ("now", "{}")]


def asking(**fields):
    return {"messages": [USER], "tools": [FORECAST, NOW], **fields}


async def chunks_of(client, body):
    async with client.stream("POST", CHAT, json={**body, "stream": True}) as answer:
        lines = [line async for line in answer.aiter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    return [msgspec.json.decode(line[6:]) for line in lines[:-1]]


def gathered(chunks):
    """Calls as a client gathers them, each delta checked."""
    calls = {}
    for chunk in chunks:
        for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
            known = calls.get(call["index"])  # always there
            if known is None:
                assert call["type"] == "function"
                assert call["id"].startswith("call_")
                calls[call["index"]] = call["function"]
            else:
                assert call.keys() == {"index", "function"}
                assert call["function"].keys() == {"arguments"}
                known["arguments"] += call["function"]["arguments"]
    assert list(calls) == list(range(len(calls)))
    return [(call["name"], call["arguments"]) for call in calls.values()]


def told(message):
    return [
        (call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    ]


async def test_streamed_calls_are_the_unstreamed_ones():
    async with (
        running(FakeModel(script=TEXT.encode(), step_s=0.001)) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        whole = (await client.post(CHAT, json=asking())).json()["choices"][0]
        assert whole["message"]["content"] == "Let me see — both.\n"
        assert told(whole["message"]) == WROTE
        assert whole["finish_reason"] == "tool_calls"
        assert len({call["id"] for call in whole["message"]["tool_calls"]}) == 2
        chunks = await chunks_of(client, asking())
        assert gathered(chunks) == WROTE
        choices = [chunk["choices"][0] for chunk in chunks]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
        assert text == "Let me see — both.\n"
        assert choices[-1]["delta"] == {}
        assert choices[-1]["finish_reason"] == "tool_calls"
        pieces = sum("tool_calls" in choice["delta"] for choice in choices)
        assert pieces > 4, "arguments come as they are written"


async def test_without_functions_the_same_text_is_text():
    async with (
        running(FakeModel(script=TEXT.encode())) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        for body in ({"messages": [USER]}, asking(tool_choice="none")):
            choice = (await client.post(CHAT, json=body)).json()["choices"][0]
            assert choice["message"]["content"] == TEXT
            assert "tool_calls" not in choice["message"]
            assert choice["finish_reason"] == "stop"


async def test_calls_that_must_come_are_valid_whatever_the_model():
    async with (
        running(FakeModel()) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        named = {"type": "function", "function": {"name": "forecast"}}
        for choice in ("required", named):
            for seed in range(3):
                user = {**USER, "content": f"{seed}"}
                body = asking(
                    messages=[user], tool_choice=choice, parallel_tool_calls=False
                )
                answer = (await client.post(CHAT, json=body)).json()["choices"][0]
                ((name, arguments),) = told(answer["message"])
                assert name in ("forecast", "now")
                if choice is named or name == "forecast":
                    assert name == "forecast"
                    jsonschema.validate(json.loads(arguments), ARGUMENTS)
                assert answer["message"]["content"] is None
                assert gathered(await chunks_of(client, body)) == [(name, arguments)]
        await assert_pages_are_back(run.engine)


async def test_a_call_cut_by_length_says_so():
    async with (
        running(FakeModel(script=TEXT.encode())) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        body = asking(max_tokens=82)
        answer = (await client.post(CHAT, json=body)).json()["choices"][0]
        assert answer["finish_reason"] == "length"
        ((name, arguments),) = told(answer["message"])
        assert name == "forecast"
        assert WROTE[0][1].startswith(arguments)
        assert gathered(await chunks_of(client, body)) == [(name, arguments)]


async def test_calls_and_results_can_be_sent_back():
    async with (
        running(FakeModel(script=TEXT.encode())) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        first = (await client.post(CHAT, json=asking())).json()["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "yes"}
            for call in first["tool_calls"]
        ]
        answer = await client.post(CHAT, json=asking(messages=[USER, first, *results]))
        assert answer.status_code == 200, answer.text
        spoilt = {**first["tool_calls"][0], "function": {"name": "f", "arguments": "["}}
        spoilt = {**first, "tool_calls": [spoilt]}
        body = {"messages": [USER, spoilt]}
        assert (await client.post(CHAT, json=body)).status_code == 200, "taught as text"


async def test_json_keeps_to_its_schema_and_says_when_it_was_cut():
    schema = {"type": "json_schema", "json_schema": {"name": "f", "schema": ARGUMENTS}}
    body = {"messages": [USER], "response_format": schema}
    async with (
        running(FakeModel()) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        whole = (await client.post(CHAT, json=body)).json()["choices"][0]
        jsonschema.validate(json.loads(whole["message"]["content"]), ARGUMENTS)
        assert whole["finish_reason"] == "stop"
        chunks = await chunks_of(client, body)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        text = "".join(delta.get("content", "") for delta in deltas)
        assert text == whole["message"]["content"]
        cut = (await client.post(CHAT, json={**body, "max_tokens": 5})).json()
        assert cut["choices"][0]["finish_reason"] == "length"
        free = {"messages": [USER], "max_tokens": 40}
        free["response_format"] = {"type": "json_object"}
        some = (await client.post(CHAT, json=free)).json()["choices"][0]
        assert some["message"]["content"].startswith("{")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_schema_that_does_not_compile_is_a_400_for_one(stream):
    bad = {"type": "object", "properties": {"a": {"type": "strin"}}}
    schema = {"type": "json_schema", "json_schema": {"name": "f", "schema": bad}}
    function = {"type": "function", "function": {"name": "f", "parameters": bad}}
    async with (
        running(FakeModel(script=b"Fine.")) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        for fields, param in (
            ({"response_format": schema}, "response_format"),
            ({"tools": [function], "tool_choice": "required"}, "tools"),
        ):
            body = {"messages": [USER], "stream": stream, **fields}
            answer = await client.post(CHAT, json=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == param
            assert "strin" in answer.json()["error"]["message"]
        answer = await client.post(CHAT, json={"messages": [USER]})
        assert answer.json()["choices"][0]["message"]["content"] == "Fine."
        assert run.engine.stats().core.restarts == 0


async def test_functions_and_log_probabilities_go_together():
    async with (
        running(FakeModel(script=TEXT.encode())) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        body = asking(logprobs=True)
        whole = (await client.post(CHAT, json=body)).json()
        entries = whole["choices"][0]["logprobs"]["content"]
        assert len(entries) == whole["usage"]["completion_tokens"]
        chunks = await chunks_of(client, body)
        streamed = [chunk["choices"][0]["logprobs"] for chunk in chunks]
        assert sum(len(one["content"]) for one in streamed if one) == len(entries)


@pytest.mark.parametrize("prompt", ["Once", [79, 110, 99, 101]])
async def test_echo_repeats_the_prompt_before_each_answer(prompt):
    body = {"prompt": [prompt, prompt], "n": 2, "echo": True}
    async with (
        running(FakeModel(script=b" more")) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        answer = (await client.post("/v1/completions", json=body)).json()
        assert [c["text"] for c in answer["choices"]] == ["Once more"] * 4
        texts = [""] * 4
        async with client.stream(
            "POST", "/v1/completions", json={**body, "stream": True}
        ) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    (choice,) = msgspec.json.decode(line[6:])["choices"]
                    texts[choice["index"]] += choice["text"]
        assert texts == ["Once more"] * 4


async def completed(client, body):
    """The choices of a completion, whole; streamed they must be the same."""
    whole = (await client.post("/v1/completions", json=body)).json()
    choices = [
        {"text": "", "tokens": [], "token_logprobs": [], "text_offset": []}
        for _ in whole["choices"]
    ]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", "/v1/completions", json=body | options) as stream:
        lines = [line async for line in stream.aiter_lines() if "data: {" in line]
    *chunks, last = [json.loads(line[6:]) for line in lines]
    assert last["usage"] == whole["usage"]
    for chunk in chunks:
        (choice,) = chunk["choices"]
        told = choices[choice["index"]]
        told["text"] += choice["text"]
        told["finish_reason"] = choice["finish_reason"]
        for name in ("tokens", "token_logprobs", "text_offset"):
            told[name] += (choice["logprobs"] or {name: []})[name]
    for told, choice in zip(choices, whole["choices"], strict=True):
        assert told["text"] == choice["text"]
        assert told["finish_reason"] == choice["finish_reason"]
        for name in ("tokens", "token_logprobs", "text_offset"):
            assert told[name] == choice["logprobs"][name]
    return whole


@pytest.mark.parametrize("prompt", ["Once upon", list(b"Once upon")])
async def test_echo_with_logprobs_tells_those_of_the_prompt(prompt):
    body = {"prompt": [prompt, prompt], "echo": True, "logprobs": 1}
    async with (
        running(FakeModel(script=b" more")) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        whole = await completed(client, body)
        for choice in whole["choices"]:
            assert choice["text"] == "Once upon more"
            logprobs = choice["logprobs"]
            assert logprobs["tokens"] == [*"Once upon more", ""]
            assert logprobs["text_offset"] == [*range(14), 14]
            assert logprobs["token_logprobs"][0] is None
            assert logprobs["top_logprobs"][0] is None
            assert all(value < 0 for value in logprobs["token_logprobs"][1:])
            assert logprobs["top_logprobs"][1].keys() == {"n"}
        await assert_pages_are_back(run.engine)


async def test_a_prompt_alone_is_told_with_no_answer_at_all():
    body = {"prompt": "Once upon", "echo": True, "max_tokens": 0}
    async with (
        running(FakeModel(script=b" more")) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        whole = await completed(client, body | {"logprobs": 0})
        (choice,) = whole["choices"]
        assert (choice["text"], choice["finish_reason"]) == ("Once upon", "length")
        assert len(choice["logprobs"]["tokens"]) == 9
        assert whole["usage"]["completion_tokens"] == 0
        assert whole["usage"]["prompt_tokens"] == 9
        plain = (await client.post("/v1/completions", json=body)).json()
        assert plain["choices"][0]["text"] == "Once upon"
        assert plain["choices"][0]["logprobs"] is None
        one = await completed(client, body | {"max_tokens": 1, "logprobs": 1})
        assert one["choices"][0]["text"] == "Once upon "
        assert len(one["choices"][0]["logprobs"]["tokens"]) == 10


async def test_a_responses_text_keeps_to_its_schema():
    form = {"type": "json_schema", "name": "f", "schema": ARGUMENTS, "strict": True}
    body = {"input": "Will it rain?", "text": {"format": form}}
    async with (
        running(FakeModel()) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        response = (await client.post("/v1/responses", json=body)).json()
        (item,) = response["output"]
        jsonschema.validate(json.loads(item["content"][0]["text"]), ARGUMENTS)
        assert response["text"] == {"format": form}
        cut = {**body, "max_output_tokens": 4}
        response = (await client.post("/v1/responses", json=cut)).json()
        assert response["status"] == "incomplete"
        bad = {"text": {"format": {**form, "schema": {"type": "strin"}}}}
        answer = await client.post("/v1/responses", json=body | bad)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "text.format"
