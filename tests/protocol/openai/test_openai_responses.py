"""Requests for responses. Refusals are tested with the session."""

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.response_fields import NEUTRAL, SOCKET_NEUTRAL
from legato.protocol.openai.responses import read_body, read_frame
from legato.protocol.requests import ChatMessage, Conversation
from legato.protocol.tools import Tool, ToolCall


def create(**fields):
    frame = {"type": "response.create", "input": "hi", **fields}
    return read_frame(msgspec.json.encode(frame), {"top_k": 2})


def post(**fields):
    return read_body(msgspec.json.encode({"input": "hi", **fields}), {})


def test_text_is_a_user_message():
    made = create(stream_id="a", metadata={"k": "v"}, user="ada")
    assert made.generation.prompts == ((ChatMessage("user", "hi"),),)
    assert (made.stream_id, made.generation.tenant) == ("a", "ada")
    assert made.echo["metadata"] == {"k": "v"}
    assert made.generation.params.top_k == 2


def test_our_sampling_fields_are_taken_too():
    params = create(seed=3, stop=["x"], min_tokens=1, ignore_eos=True).generation.params
    assert (params.seed, params.stop, params.ignore_eos) == (3, ("x",), True)


def test_every_field_without_effect_is_accepted_empty():
    neutral = NEUTRAL | SOCKET_NEUTRAL
    create(**dict.fromkeys(neutral))
    create(**{name: values[0] for name, values in neutral.items() if values})


@pytest.mark.parametrize(
    "name", [n for n in NEUTRAL | SOCKET_NEUTRAL if n != "stream_options"]
)
def test_every_field_without_effect_is_refused_when_it_asks_for_one(name):
    with pytest.raises(InvalidRequest) as caught:
        create(**{name: "surely not"})
    assert caught.value.field == name


def test_logprobs_come_with_a_number_or_by_inclusion():
    include = ["message.output_text.logprobs"]
    assert create().generation.params.logprobs is None
    assert create(include=include).generation.params.logprobs == 0
    assert create(include=include, top_logprobs=3).generation.params.logprobs == 3
    with pytest.raises(InvalidRequest) as caught:
        create(include=["reasoning.encrypted_content"])
    assert caught.value.field == "include"


def test_reasoning_can_only_be_asked_not_to_be():
    silent = {"effort": None, "summary": None}
    assert create().echo["reasoning"] == silent
    for said in ({}, silent, {"effort": "none"}):
        asked = create(reasoning=said)
        assert asked.echo["reasoning"] == {**silent, **said}
    for name, value in (("effort", "low"), ("summary", "auto")):
        with pytest.raises(InvalidRequest) as caught:
            create(reasoning={name: value})
        assert caught.value.field == f"reasoning.{name}"
    with pytest.raises(InvalidRequest, match="does not reason"):
        create(reasoning={"effort": "high"})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("guided_json", "text.format"),
        ("guided_choice", "enum"),
        ("guided_regex", "pattern"),
        ("structured_outputs", "json_schema"),
        ("conversation", "previous_response_id"),
        ("max_tokens", "max_output_tokens"),
        ("n_predict", "max_output_tokens"),
        ("messages", "input"),
        ("response_format", "text.format"),
        ("response", "in the frame itself"),
    ],
)
def test_a_field_of_other_servers_is_refused_with_what_to_write_instead(name, instead):
    with pytest.raises(InvalidRequest, match=instead) as caught:
        create(**{name: {"type": "object"}})
    assert caught.value.field == name


def test_a_prompt_is_instructions_then_what_was_said_then_what_is_new():
    earlier = (ChatMessage("user", "a"), ChatMessage("assistant", "b"))
    made = create(instructions="be brief", previous_response_id="resp_1")
    assert made.previous == "resp_1"
    assert made.prompt(earlier).prompts == (
        (ChatMessage("system", "be brief"), *earlier, ChatMessage("user", "hi")),
    )
    assert made.echo["previous_response_id"] == "resp_1"


def test_functions_come_with_the_prompt_of_their_own_turn():
    calls = (ToolCall("c", "now", "{}"),)
    earlier = (ChatMessage("user", "a"), ChatMessage("assistant", "", calls))
    given = {"type": "function_call_output", "call_id": "c", "output": "9"}
    now = {"type": "function", "name": "now"}
    made = create(
        input=[given], tools=[now], tool_choice="auto", parallel_tool_calls=False
    )
    (prompt,) = made.prompt(earlier).prompts
    assert isinstance(prompt, Conversation)
    assert prompt.messages == (*earlier, ChatMessage("tool", "9", tool_call_id="c"))
    assert prompt.use.tools == (Tool("now", strict=True),)
    assert prompt.use.parallel is False
    assert made.echo["parallel_tool_calls"] is False
    assert [tool["name"] for tool in made.echo["tools"]] == ["now"]
    # The next turn has those that it names itself, and a call needs none at all.
    assert create(input=[given]).prompt(earlier).prompts == (prompt.messages,)
    with pytest.raises(InvalidRequest) as caught:
        create(input=[given]).prompt(())
    assert caught.value.field == "input"


def test_a_choice_of_none_leaves_no_functions_and_is_repeated():
    now = {"type": "function", "name": "now"}
    made = create(tools=[now], tool_choice="none")
    assert made.use is None
    assert (made.echo["tool_choice"], len(made.echo["tools"])) == ("none", 1)


def test_a_prompt_that_is_only_taken_up_makes_one_token_and_needs_no_input():
    made = create(generate=False, input=None, instructions="be brief", min_tokens=9)
    params = made.prompt(()).params
    assert (params.max_tokens, params.min_tokens) == (1, 0)
    with pytest.raises(InvalidRequest) as caught:
        create(generate=False, input=None).prompt(())
    assert caught.value.field == "input"


def test_a_response_is_stored_unless_it_says_otherwise():
    assert create().store
    assert not create(store=False).store
    assert create(store=False).echo["store"] is False


def test_what_only_sockets_take_is_unknown_over_http_and_the_other_way_round():
    for name in ("resumable", "credit", "generate", "stream_id", "legato"):
        with pytest.raises(InvalidRequest) as caught:
            post(**{name: 1})
        assert caught.value.field == name
    assert post(background=True, stream=True).background
    with pytest.raises(InvalidRequest) as caught:
        post(background=True, store=False)
    assert caught.value.field == "store"
    with pytest.raises(InvalidRequest) as caught:
        create(background=True)
    assert caught.value.field == "background"


@pytest.mark.parametrize("credit", [-1, 2**31])
def test_credit_has_a_range(credit):
    assert create(credit=0).credit == 0
    with pytest.raises(InvalidRequest) as caught:
        create(credit=credit)
    assert caught.value.field == "credit"


def test_terms_are_taken_and_checked():
    terms = create(
        priority=-3, ttft_deadline_s=1, total_deadline_s=2.5
    ).generation.terms
    assert (terms.priority, terms.ttft_deadline_s) == (-3, 1.0)
    assert terms.total_deadline_s == 2.5
    with pytest.raises(InvalidRequest) as caught:
        create(priority=101)
    assert caught.value.field == "priority"
