"""Input items, read as a conversation."""

import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.input_items import check_outputs, read_input
from legato.protocol.requests import ChatMessage
from legato.protocol.tools import ToolCall

USER = {"role": "user", "content": "What time is it?"}
SAID = {"role": "assistant", "content": [{"type": "output_text", "text": "Wait."}]}


def call(name, **fields):
    item = {"type": "function_call", "call_id": name, "name": "now"}
    return {**item, "arguments": "{}", **fields}


def output(name, **fields):
    return {"type": "function_call_output", "call_id": name, "output": "9", **fields}


def made(*names):
    return tuple(ToolCall(name, "now", "{}") for name in names)


def test_text_is_what_the_user_says():
    assert read_input("hi") == (ChatMessage("user", "hi"),)
    with pytest.raises(InvalidRequest):
        read_input([])


def test_calls_belong_to_the_message_before_them():
    assert read_input([USER, SAID, call("a"), call("b"), output("a"), output("b")]) == (
        ChatMessage("user", "What time is it?"),
        ChatMessage("assistant", "Wait.", made("a", "b")),
        ChatMessage("tool", "9", tool_call_id="a"),
        ChatMessage("tool", "9", tool_call_id="b"),
    )


def test_calls_without_a_message_are_a_turn_of_their_own():
    assert read_input([call("a"), output("a"), call("b")]) == (
        ChatMessage("assistant", "", made("a")),
        ChatMessage("tool", "9", tool_call_id="a"),
        ChatMessage("assistant", "", made("b")),
    )
    again = read_input([SAID, call("a"), USER, SAID, call("b")])
    assert [turn.tool_calls for turn in again] == [made("a"), (), made("b")]


def test_a_call_can_be_sent_back_as_it_came():
    item = call("a", id="fc_1", status="completed", caller={"type": "direct"})
    item |= {"namespace": None, "async": False}
    parts = [{"type": "input_text", "text": "9"}, {"type": "input_text", "text": "!"}]
    assert read_input(
        [item, output("a", output=parts, id=None, status="completed")]
    ) == (
        ChatMessage("assistant", "", made("a")),
        ChatMessage("tool", "9!", tool_call_id="a"),
    )


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (call("a", arguments='{"a', status="incomplete"), "arguments"),
        (call("a", arguments={}), "arguments"),
        (call("a", namespace="n"), "namespace"),
        (call("a", caller={"type": "program", "caller_id": "x"}), "caller.type"),
        (call("a", **{"async": True}), "async"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "call_id"),
        (output("a", output=None), "output"),
        (output("a", output=[{"type": "input_image"}]), "output[0].type"),
        ({"type": "function_call_output", "output": "9"}, "call_id"),
        ({"type": "item_reference", "id": "x"}, "type"),
        ({"type": "web_search_call"}, "type"),
        ({"role": "tool", "content": "9"}, "role"),
    ],
)
def test_what_cannot_be_read_is_named(item, field):
    with pytest.raises(InvalidRequest) as caught:
        read_input([USER, item])
    assert caught.value.field == f"input[1].{field}"


@pytest.mark.parametrize("arguments", ['{"a', "[1]", "[" * 100_000, '{"a": "\\ud800"}'])
def test_a_call_that_was_made_comes_back_whatever_its_arguments(arguments):
    item = call("a", arguments=arguments, status="completed")
    (turn,) = read_input([item])
    assert turn.tool_calls == (ToolCall("a", "now", arguments),)


def test_an_output_answers_a_call_that_was_made_before():
    earlier = (ChatMessage("assistant", "", made("a")),)
    check_outputs(earlier, read_input([output("a")]))
    check_outputs((), read_input([call("b"), output("b")]))
    check_outputs((), read_input("hi"))
    for wrong in ([output("b")], [output("b"), call("b")]):
        with pytest.raises(InvalidRequest) as caught:
            check_outputs(earlier, read_input(wrong))
        assert caught.value.field == "input"
        assert "'b'" in str(caught.value)


def test_more_items_than_anybody_needs_are_refused_before_they_are_read():
    with pytest.raises(InvalidRequest, match="at most 10000 entries") as refused:
        read_input([{"type": "unheard of"}] * 10_001)
    assert refused.value.field == "input"


def test_too_many_parts_in_all_are_refused_before_they_are_read():
    message = {"role": "user", "content": ["unheard of"] * 10_000}
    given = {"type": "function_call_output", "output": ["unheard of"] * 10_001}
    with pytest.raises(InvalidRequest, match=r"20000 parts .* got 20001") as refused:
        read_input([message, given])
    assert refused.value.field == "input"
