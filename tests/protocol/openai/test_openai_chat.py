"""The body of /v1/chat/completions. Answers are tested with the endpoint."""

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.grammar import Grammar
from legato.protocol.openai.chat import NEUTRAL, ChatRequest, read_chat
from legato.protocol.requests import ChatMessage, Conversation
from legato.protocol.tools import Tool, ToolCall

USER = {"role": "user", "content": "hi"}


def chat(*, messages=(USER,), **fields):
    body = msgspec.json.encode({"messages": messages, **fields})
    return read_chat(body, {"temperature": 0.2, "top_k": 4})


FORMAT = "response_format.json_schema"
CALLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def function(name, **fields):
    return {"type": "function", "function": {"name": name, **fields}}


def named(name):
    return {"type": "function", "function": {"name": name}}


def json_schema(schema, name="it"):
    inner = {"name": name, "schema": schema}
    return {"type": "json_schema", "json_schema": inner}


FIND = function("find", description="Look.", parameters={"type": "object"})


def refused(**fields):
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    return caught.value


def test_defaults_of_the_model_hold_where_the_request_is_silent():
    assert chat(top_k=-1).params == chat(top_k=0).params
    params = chat(top_k=0).params
    assert (params.temperature, params.top_k, params.max_tokens) == (0.2, 0, None)


def test_every_sampling_field_arrives():
    params = chat(
        temperature=1,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        seed=-4,
        stop="a",
        stop_token_ids=[7],
        include_stop_str_in_output=True,
        min_tokens=2,
        ignore_eos=True,
        presence_penalty=1,
        frequency_penalty=-1,
        repetition_penalty=1.5,
        logit_bias={"5": -3},
        logprobs=True,
        top_logprobs=2,
        max_completion_tokens=9,
    ).params
    assert (params.temperature, params.top_p, params.top_k) == (1.0, 0.5, 3)
    assert (params.min_p, params.seed, params.stop) == (0.1, -4, ("a",))
    assert (params.stop_token_ids, params.include_stop) == ((7,), True)
    assert (params.min_tokens, params.ignore_eos) == (2, True)
    assert (params.presence_penalty, params.frequency_penalty) == (1.0, -1.0)
    assert (params.repetition_penalty, params.logit_bias) == (1.5, {5: -3.0})
    assert (params.logprobs, params.max_tokens) == (2, 9)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "bogus", "content": ""}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user"}]}, "messages[1].content"),
        ({"messages": [{**USER, "name": "ada"}]}, "messages[0].name"),
        ({"messages": [{**USER, "tool_call_id": "x"}]}, "messages[0].tool_call_id"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -3}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"temperature": 1e9}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temprature": 1}, "temprature"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 1000}}, "logit_bias"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": 1_000_000}, "n"),
        ({"n": "2"}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": True}, "n"),
        ({"priority": 101}, "priority"),
        ({"priority": -101}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"ttft_deadline_s": 0}, "ttft_deadline_s"),
        ({"total_deadline_s": 1e9}, "total_deadline_s"),
        ({"user": "u" * 257}, "user"),
        ({"safety_identifier": "u" * 257}, "safety_identifier"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [FIND, FIND]}, "tools"),
        ({"tools": [function("a b")]}, "tools[0].function.name"),
        ({"tools": [function("f", parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [FIND], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [FIND], "tool_choice": named("lose")}, "tool_choice"),
        ({"tools": [FIND], "tool_choice": {"type": "f"}}, "tool_choice.type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": named("find")}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"messages": [{**USER, "tool_calls": CALLS}]}, "messages[0].tool_calls"),
        ({"messages": [USER, {"role": "tool"}]}, "messages[1].content"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, f"{FORMAT}"),
        ({"response_format": json_schema(None)}, f"{FORMAT}.schema"),
        ({"response_format": json_schema({}, name="")}, f"{FORMAT}.name"),
        ({"response_format": {**json_schema({}), "type": "text"}}, f"{FORMAT}"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 3}, "min_tokens"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"stream_options": {"include_usag": True}}, "stream_options.include_usag"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(fields, field):
    assert refused(**fields).field == field


def test_every_field_without_effect_is_accepted_empty():
    chat(**dict.fromkeys(NEUTRAL))
    chat(**{name: values[0] for name, values in NEUTRAL.items() if values})
    chat(user=None, metadata={"a": "b"}, parallel_tool_calls=True, prompt_cache_key="k")


def test_every_declared_field_is_read_or_refused():
    used = set(ChatRequest.__struct_fields__) - set(NEUTRAL)
    assert {"functions", "audio", "prediction"}.isdisjoint(used)
    assert {"tools", "tool_choice", "response_format"} <= used
    assert {"messages", "temperature", "top_logprobs", "n", "priority"} <= used


def test_parts_of_text_are_joined_and_others_are_refused():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    (prompt,) = chat(messages=[{"role": "developer", "content": parts}]).prompts
    assert prompt == (ChatMessage("system", "ab"),)
    image = {"type": "image_url", "image_url": {"url": "x"}}
    error = refused(messages=[{"role": "user", "content": [parts[0], image]}])
    assert error.field == "messages[0].content[1].type"


def test_an_answer_can_be_sent_back_as_it_came():
    message = {
        "role": "assistant",
        "content": "yes",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
    }
    (prompt,) = chat(messages=[USER, message]).prompts
    assert prompt[1] == ChatMessage("assistant", "yes")


def test_stream_options_are_heard():
    options = chat(stream=True, stream_options={"include_usage": True})
    assert options.stream
    assert options.include_usage
    assert not chat(stream=True, stream_options={}).include_usage


def test_functions_come_with_the_conversation():
    (prompt,) = chat(tools=[FIND, function("now", strict=True)]).prompts
    assert isinstance(prompt, Conversation)
    assert prompt.messages == (ChatMessage("user", "hi"),)
    assert prompt.use.tools == (
        Tool("find", "Look.", {"type": "object"}),
        Tool("now", strict=True),
    )
    assert (prompt.use.choice, prompt.use.parallel) == ("auto", True)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ("auto", "")),
        ("required", ("required", "")),
        (named("find"), ("required", "find")),
    ],
)
def test_the_choice_among_functions_is_read(choice, expected):
    read = chat(tools=[FIND], tool_choice=choice, parallel_tool_calls=False)
    (prompt,) = read.prompts
    assert isinstance(prompt, Conversation)
    assert (prompt.use.choice, prompt.use.name) == expected
    assert not prompt.use.parallel
    assert read.has_tools


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": [FIND]}])
def test_without_a_choice_there_are_no_functions(fields):
    read = chat(**fields, tool_choice="none")
    assert read.prompts == ((ChatMessage("user", "hi"),),)
    assert not read.has_tools


def test_calls_and_their_results_are_read():
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "1", "content": "42"},
    ]
    (prompt,) = chat(messages=messages).prompts
    assert prompt[1:] == (
        ChatMessage("assistant", "", (ToolCall("1", "f", "{}"),)),
        ChatMessage("tool", "42", (), "1"),
    )


def test_a_form_of_the_answer_is_read():
    schema = {"type": "object", "properties": {"z": {}, "a": {}}}
    read = chat(response_format=json_schema(schema)).params
    assert read.grammar == Grammar.json_schema(schema)
    read = chat(response_format={"type": "json_object"}).params
    assert read.grammar == Grammar.json_object()
    assert chat(response_format={"type": "text"}).params.grammar is None


def test_more_messages_than_anybody_needs_are_refused():
    with pytest.raises(InvalidRequest, match="at most 10000 entries") as refused:
        chat(messages=[USER] * 10_001)
    assert refused.value.field == "messages"


def test_too_many_parts_in_all_are_refused_with_the_bound():
    part = {"type": "text", "text": "x"}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    most = [
        {"role": "user", "content": [part] * 10_000},
        {"role": "assistant", "content": "", "tool_calls": [call] * 10_000},
    ]
    assert len(chat(messages=most).prompts[0]) == 2
    with pytest.raises(InvalidRequest, match="at most 20000 parts") as refused:
        chat(messages=[*most, {"role": "user", "content": [part]}])
    assert refused.value.field == "messages"
    assert "got 20001" in str(refused.value)
