"""Our frames and events of Responses WebSocket mode."""

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.extensions import (
    FRAMES,
    Note,
    note,
    open_envelope,
    read_authenticate,
    read_control,
)


def control(kind, **fields):
    return read_control(kind, msgspec.json.encode({"type": kind, **fields}))


def test_an_envelope_keeps_only_usable_names():
    envelope = open_envelope(b'{"type": "x", "stream_id": "a", "response_id": "r"}')
    assert (envelope.stream_id, envelope.response_id) == ("a", "r")
    envelope = open_envelope(b'{"type": "x", "stream_id": 5, "response_id": []}')
    assert (envelope.stream_id, envelope.response_id) == (None, None)
    for name in ("", "x" * 65):
        frame = {"type": "x", "stream_id": name, "response_id": name}
        envelope = open_envelope(msgspec.json.encode(frame))
        assert (envelope.stream_id, envelope.response_id) == (None, None)


def test_a_frame_names_a_response_a_lane_or_nothing():
    assert control("response.cancel", response_id="r").response_id == "r"
    assert control("response.stop", stream_id="a").stream_id == "a"
    assert control("response.cancel").response_id is None


@pytest.mark.parametrize(
    ("kind", "fields", "param"),
    [
        ("response.credit", {}, "tokens"),
        ("response.credit", {"tokens": 0}, "tokens"),
        ("response.credit", {"tokens": 2**31}, "tokens"),
        ("response.update", {}, "max_output_tokens"),
        ("response.update", {"max_output_tokens": 0}, "max_output_tokens"),
        ("response.update", {"priority": 101}, "priority"),
        ("response.resume", {}, "response_id"),
        ("response.resume", {"response_id": "r", "credit": -1}, "credit"),
        (
            "response.resume",
            {"response_id": "r", "starting_after": -2},
            "starting_after",
        ),
        *((kind, {"legato": 2}, "legato") for kind in ("response.stop",)),
        *((kind, {"legato": True}, "legato") for kind in ("response.stop",)),
        *((kind, {"stream_id": ""}, "stream_id") for kind in ("response.stop",)),
    ],
)
def test_a_bad_frame_names_the_field(kind, fields, param):
    with pytest.raises(InvalidRequest) as caught:
        control(kind, **fields)
    assert caught.value.field == param


def test_every_frame_may_say_the_version():
    least = {
        "response.credit": {"tokens": 1},
        "response.update": {"priority": 1},
        "response.resume": {"response_id": "r"},
    }
    for kind in FRAMES:
        assert control(kind, legato=1, **least.get(kind, {})).legato == 1
    assert read_authenticate(b'{"type":"x","api_key":"k","legato":1}') == "k"


def test_an_event_of_ours_says_the_version_and_leaves_out_what_is_not():
    event = note("response.updated", "a", response_id="r", priority=None)
    assert isinstance(event, Note)
    assert msgspec.json.decode(event.encode()) == {
        "type": "response.updated",
        "legato": 1,
        "response_id": "r",
        "stream_id": "a",
    }
