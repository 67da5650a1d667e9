"""The items of a response's output, with the real parser of calls."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.tools import ToolParser
from legato.actors.text.tools.format import HERMES
from legato.protocol.openai.refusal import Refusal
from legato.protocol.openai.response_events import ResponseEvents
from legato.protocol.openai.response_output import by_token
from legato.protocol.requests import ChatMessage, Delta, FinishReason, Usage
from legato.protocol.steps import TokenLogprobs
from legato.protocol.tools import ToolCall

STOP, LENGTH, CANCELLED = list(FinishReason)[:3]


def written(name, arguments):
    body = f'{{"name": "{name}", "arguments": {arguments}}}'
    return f"<tool_call>\n{body}\n</tool_call>"


BOTH = "\n".join(("Let me see.", written("f", '{"a": "ü🌍"}'), written("g", "{}")))


def events_of():
    return ResponseEvents(
        "resp_1",
        "m",
        5,
        stream_id="lane",
        echo={},
        token_bytes=lambda token: bytes([token]),
        clock=lambda: 9.0,
        parser=ToolParser(HERMES),
    )


def told(texts, reason=STOP, shape=None):
    """All events of an answer."""
    shape = shape or events_of()
    frames = shape.opening()
    for text in texts:
        frames += shape.delta(Delta(text))
    frames += shape.ending(reason, Usage(1, 2))
    return [msgspec.json.decode(frame) for frame in frames]


def rebuilt(events):
    """The output, put together from the events of each item alone."""
    items, open_item = [], None
    for number, event in enumerate(events):
        assert (event["sequence_number"], event["stream_id"]) == (number, "lane")
        kind = event["type"]
        if "output_index" in event:
            assert event["output_index"] == len(items)
        if kind == "response.output_item.added":
            assert open_item is None
            open_item = event["item"]
            assert open_item["status"] == "in_progress"
        elif kind.endswith("delta"):
            assert event["item_id"] == open_item["id"]
            assert event["delta"]
            field = "arguments" if "arguments" in kind else "text"
            open_item[field] = open_item.get(field, "") + event["delta"]
        elif kind == "response.function_call_arguments.done":
            assert event["item_id"] == open_item["id"]
            assert event["arguments"] == open_item["arguments"]
        elif kind == "response.output_item.done":
            item, text = event["item"], open_item.pop("text", "")
            if item["type"] == "message":
                (part,) = item["content"]
                assert part["text"] == text
            else:
                assert item == {**open_item, "status": item["status"]}
            items.append(item)
            open_item = None
    assert open_item is None
    return items


def shown(items):
    return [
        (item["status"], item["content"][0]["text"])
        if item["type"] == "message"
        else (item["status"], item["name"], item["arguments"])
        for item in items
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, len(BOTH)), max_size=12))
def test_items_are_the_same_however_the_text_is_cut(cuts):
    ends = sorted(cuts)
    pieces = [BOTH[a:b] for a, b in zip([0, *ends], [*ends, len(BOTH)], strict=True)]
    shape = events_of()
    events = told(pieces, shape=shape)
    items = rebuilt(events)
    assert shown(items) == [
        ("completed", "Let me see.\n"),
        ("completed", "f", '{"a": "ü🌍"}'),
        ("completed", "g", "{}"),
    ]
    last = events[-1]["response"]
    assert (events[-1]["type"], last["output"]) == ("response.completed", items)
    ids = [item["id"] for item in items] + [item["call_id"] for item in items[1:]]
    assert len(set(ids)) == 5
    calls = tuple(
        ToolCall(item["call_id"], item["name"], item["arguments"]) for item in items[1:]
    )
    assert shape.turns == (ChatMessage("assistant", "Let me see.\n", calls),)


def test_a_call_without_text_is_the_only_item():
    assert shown(rebuilt(told([written("f", "{}")]))) == [("completed", "f", "{}")]


def test_an_answer_without_calls_is_one_message():
    for text in ("Fine.", "", "<tool_call> or not"):
        assert shown(rebuilt(told([text]))) == [("completed", text)]


def test_text_after_a_call_is_another_message():
    items = rebuilt(told([written("f", "{}"), " Done", "."]))
    assert shown(items) == [("completed", "f", "{}"), ("completed", " Done.")]
    items = rebuilt(told(["First. ", written("f", "{}"), "Done."]))
    assert len({item["id"] for item in items}) == 3


def test_a_call_is_done_when_its_arguments_are():
    shape = events_of()
    frames = shape.delta(Delta(written("f", '{"a": 1}').removesuffix("\n</tool_call>")))
    kinds = [msgspec.json.decode(frame)["type"] for frame in frames]
    assert kinds[-2:] == [
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]


@pytest.mark.parametrize("reason", [LENGTH, CANCELLED])
def test_a_call_that_was_cut_is_incomplete_and_no_part_of_the_conversation(reason):
    shape = events_of()
    cut = written("g", '{"a": "b"}')[:-16]
    items = rebuilt(told(["So. ", written("f", "{}"), cut], reason, shape))
    assert shown(items) == [
        ("completed", "So. "),
        ("completed", "f", "{}"),
        ("incomplete", "g", '{"a": "b'),
    ]
    (turn,) = shape.turns
    assert [call.name for call in turn.tool_calls] == ["f"]


def test_an_answer_cut_after_its_calls_has_only_complete_ones():
    items = rebuilt(told([written("f", "{}")], LENGTH))
    assert shown(items) == [("completed", "f", "{}")]


def test_an_answer_cancelled_before_its_first_token_has_no_item():
    assert rebuilt(told([], CANCELLED)) == []


def test_what_was_held_back_is_told_when_an_error_cuts_the_answer():
    shape = events_of()
    frames = [*shape.opening(), *shape.delta(Delta("a <tool"))]
    frames += shape.failing(Refusal(500, "c", "m"))
    items = rebuilt([msgspec.json.decode(frame) for frame in frames])
    assert shown(items) == [("incomplete", "a <tool")]


def entries_of(events):
    return [
        entry["token"]
        for event in events
        if event["type"] == "response.output_text.delta"
        for entry in event["logprobs"]
    ]


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_log_probabilities_go_where_the_text_of_their_tokens_goes(at_once):
    text = f"Oh <b {written('f', '{}')} Bye"
    shape, frames = events_of(), []
    for start in range(0, len(text), at_once):
        some = text[start : start + at_once]
        ids = tuple(some.encode())
        logprobs = (TokenLogprobs(-1.0, (), ()),) * len(ids)
        frames += shape.delta(Delta(some, ids, logprobs))
    frames += shape.ending(STOP, Usage(1, 2))
    events = [msgspec.json.decode(frame) for frame in frames]
    assert "".join(entries_of(events)) == "Oh <b  Bye"
    messages = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    first = messages[0]["content"][0]
    assert "".join(entry["token"] for entry in first["logprobs"]) == first["text"]


def test_tokens_that_share_a_character_are_told_apart():
    entries = [{"bytes": [byte]} for byte in "é!".encode()]
    assert [text for text, _ in by_token("é!", entries)] == ["", "é", "!"]
    assert list(by_token("other", entries)) == [("other", entries)]
