"""Events of one response, checked for shape by the rules of the specification."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.protocol.openai.refusal import Refusal
from legato.protocol.openai.response_events import ResponseEvents, error_event
from legato.protocol.requests import Delta, FinishReason, Usage


def events_of(stream_id=None):
    return ResponseEvents(
        "resp_1",
        "m",
        5,
        stream_id=stream_id,
        echo={"metadata": {"a": "b"}},
        token_bytes=lambda token: bytes([token]),
        clock=lambda: 9.0,
    )


def decode(frames):
    return [msgspec.json.decode(frame) for frame in frames]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text()), st.sampled_from(list(FinishReason)[:3]), st.booleans())
def test_text_travels_once_and_numbers_are_dense(texts, reason, has_lane):
    lane = 'a "lane"' if has_lane else None
    shape = events_of(lane)
    frames = shape.opening()
    for text in texts:
        frames += shape.delta(Delta(text))
    frames += shape.ending(reason, Usage(1, 2))
    events = decode(frames)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert {e.get("stream_id") for e in events} == {lane}
    whole = "".join(texts)
    pieces = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(pieces) == whole
    assert "" not in pieces
    done = [e for e in events if e["type"] == "response.output_text.done"]
    assert [e["text"] for e in done] in ([], [whole])
    last = events[-1]["response"]
    assert last["metadata"] == {"a": "b"}
    assert last["completed_at"] == (9 if reason is FinishReason.STOP else None)
    if whole or reason is not FinishReason.CANCELLED:
        assert last["output"][0]["content"][0]["text"] == whole


def test_the_first_events_show_an_empty_response():
    created, working = decode(events_of().opening())
    for event in (created, working):
        assert event["response"]["status"] == "in_progress"
        assert event["response"]["output"] == []
        assert event["response"]["usage"] is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_prompt"),
        (429, "rate_limit_exceeded"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_a_failure_is_an_error_then_the_failed_response(status, code):
    shape = events_of("a")
    decode(shape.opening())
    refusal = Refusal(status, "some_code", "why", param="input")
    error, failed = decode(shape.failing(refusal))
    assert error["type"] == "error"
    assert (error["status"], error["error"]["code"]) == (status, "some_code")
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == code
    assert failed["response"]["error"]["message"] == "why"


def test_an_error_of_the_socket_has_no_number():
    event = msgspec.json.decode(error_event(Refusal(400, "c", "m")).encode())
    assert set(event) == {"type", "status", "error"}
