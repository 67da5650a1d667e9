"""Spoiled frames on every socket: an error event in shape, and the socket lives."""

from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from legato.protocol.openai.responses import KINDS, CancelFrame, CreateFrame
from legato.serve.openapi.answers import ErrorObject

from .conftest import KEY
from .mutations import spoiled

pytestmark = pytest.mark.slow

HELLO = {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
CREATE = {"type": "response.create", "input": "hi"}
SEEDS = [
    CREATE,
    {**CREATE, "input": [HELLO], "stream_id": "a", "instructions": "Be brief."},
    {**CREATE, "stream_id": "b", "top_logprobs": 1, "metadata": {"a": "b"}},
    {"type": "response.cancel"},
    {"type": "response.cancel", "stream_id": "a"},
    {"type": "response.cancel", "response_id": "resp_1"},
]
FIELDS = sorted({*CreateFrame.__struct_fields__, *CancelFrame.__struct_fields__})
LAST = {**CREATE, "stream_id": "the last", "metadata": {"mark": "here"}}


def test_every_event_of_a_client_is_here():
    assert {seed["type"] for seed in SEEDS} == set(KINDS)


def check_event(event):
    """An event is one of a response's, numbered, or an error in shape."""
    assert isinstance(event["type"], str)
    if event["type"] == "error":
        assert 400 <= event["status"] < 600
        assert event["status"] != 500
        error = {name: event["error"][name] for name in ErrorObject.__struct_fields__}
        msgspec.convert(error, ErrorObject, strict=True)
    else:
        assert event["sequence_number"] >= 0


def is_last(event):
    response = event.get("response", {})
    return response.get("metadata") == {"mark": "here"} and response["usage"]


@contextmanager
def connected(server):
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    headers = {"authorization": f"Bearer {KEY}"}
    with connect(url, additional_headers=headers, compression=None) as socket:
        yield socket


many = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@many
@given(
    frames=st.lists(spoiled(SEEDS, FIELDS), min_size=1, max_size=6),
    binary=st.sampled_from([False] * 5 + [True]),
)
def test_spoiled_frames_leave_the_socket_alive(watched, frames, binary):
    with connected(watched) as socket:
        for frame in frames:
            socket.send(frame if binary else frame.decode("utf-8", "replace"))
        socket.send(msgspec.json.encode(LAST).decode())
        while True:
            event = msgspec.json.decode(socket.recv(20))
            check_event(event)
            if is_last(event):
                break


@many
@given(data=st.binary(min_size=1, max_size=40))
def test_bytes_that_are_no_frames_close_the_socket_alone(watched, data):
    with connected(watched) as socket:
        # Reserved bits, which no frame may have.
        socket.socket.sendall(b"\xf3" + data + bytes(20))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1002
