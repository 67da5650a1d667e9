"""Rubbish of every kind: always an error of the protocol's own shape, never a crash."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.protocol.openai.chat import ChatRequest
from legato.protocol.openai.responses import CreateFrame

pytestmark = pytest.mark.slow

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def bodies(kind, known):
    """Objects of known fields with any value, now and then of unknown ones."""
    names = st.sampled_from(kind.__struct_fields__) | st.text()
    return st.dictionaries(names, values, max_size=5).map(lambda d: {**known, **d})


def encode(value):
    """JSON as careless clients write it: NaN and huge integers too."""
    return json.dumps(value).encode()


CHAT = {"messages": [{"role": "user", "content": "hi"}]}
many = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@many
@given(body=bodies(ChatRequest, CHAT).map(encode) | st.binary())
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_any_body_is_answered_or_refused_in_shape(app, begin, engine, path, body):
    async def main():
        request = begin("POST", path, body)
        await request.done()
        return request

    request = asyncio.run(main())
    assert request.status in (200, 400, 404)
    if request.status != 200:
        assert set(request.error) == {"message", "type", "param", "code"}
        assert request.error["type"] == "invalid_request_error"
    assert engine.open == 0


create = {"type": "response.create", "input": "hi"}
kinds = st.sampled_from(["response.create", "response.cancel"]) | st.text()
frames = (
    bodies(CreateFrame, create).map(encode)
    | st.builds(
        lambda kind, d: encode({**d, "type": kind}), kinds, bodies(CreateFrame, {})
    )
    | st.binary()
)


@many
@given(sent=st.lists(frames, max_size=5), as_text=st.booleans())
def test_any_frames_leave_the_socket_alive(app, connect_once, engine, sent, as_text):
    async def main():
        socket = await connect_once(app)
        for frame in sent:
            socket.send(frame.decode("utf-8", "replace") if as_text else frame)
        socket.send({**create, "stream_id": "the last", "metadata": {"mark": "here"}})
        while True:
            event = await socket.receive()
            if event["type"] == "error":
                assert 400 <= event["status"] < 500
                assert isinstance(event["error"]["message"], str)
            response = event.get("response", {})
            if response.get("metadata") == {"mark": "here"} and response["usage"]:
                break
        socket.disconnect()
        await socket.task

    asyncio.run(main())
    assert engine.open == 0
