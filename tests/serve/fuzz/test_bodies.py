"""Spoiled bodies for every endpoint: an answer or an error in shape."""

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.protocol.openai.chat import ChatRequest
from legato.protocol.openai.completion import CompletionRequest
from legato.serve.openapi import OPERATIONS
from legato.serve.openapi.answers import Refused

from .conftest import KEY
from .mutations import spoiled

pytestmark = pytest.mark.slow
many = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

HELLO = {"role": "user", "content": "hi"}
PARTS = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
SAMPLING = {"temperature": 0.5, "seed": 1, "stop": ["x"], "logit_bias": {"5": 1.0}}
ENDPOINTS = {
    "/v1/chat/completions": (
        ChatRequest.__struct_fields__,
        [
            {"messages": [HELLO]},
            {"messages": [PARTS, HELLO], "stream": True, "n": 2, "max_tokens": 3},
            {"messages": [HELLO], "logprobs": True, "top_logprobs": 2, **SAMPLING},
        ],
    ),
    "/v1/completions": (
        CompletionRequest.__struct_fields__,
        [
            {"prompt": "hi"},
            {"prompt": ["a", "b"], "stream": True, "logprobs": 1},
            {"prompt": [1, 2, 3], "ignore_eos": True, **SAMPLING},
            {"prompt": [[1], [2]], "stream_options": {"include_usage": True}},
        ],
    ),
    "/admin/batching": (
        ("type", "max_batch", "max_delay_s", "size", "preferred", "one_shot"),
        [
            {"type": "continuous"},
            {"type": "dynamic", "max_batch": 4, "max_delay_s": 0, "preferred": [2]},
            {"type": "auto", "max_batch": 4},
        ],
    ),
}


def test_every_endpoint_that_takes_a_body_is_here():
    assert set(ENDPOINTS) == {one.path for one in OPERATIONS if one.takes is not None}


@pytest.fixture(scope="module")
def client(live):
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with httpx.Client(base_url=live.url, headers=headers, timeout=20) as client:
        yield client


def check_refusal(status, body):
    assert 400 <= status < 600
    assert status != 500
    error = msgspec.json.decode(body, type=Refused, strict=True).error
    assert error.message
    assert error.code


def check_events(text):
    """A stream ends once, and an error in it is in shape."""
    *events, rest = text.split("\n\n")
    assert rest == ""
    assert events[-1] == "data: [DONE]"
    for event in events[:-1]:
        data = msgspec.json.decode(event.removeprefix("data: "))
        assert isinstance(data, dict)
        if "error" in data:
            msgspec.convert(data, Refused, strict=True)


@many
@given(data=st.data())
@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_spoiled_body_is_answered_or_refused_in_shape(watched, client, path, data):
    fields, seeds = ENDPOINTS[path]
    body = data.draw(spoiled(seeds, fields))
    answer = client.post(path, content=body)
    if answer.status_code != 200:
        check_refusal(answer.status_code, answer.content)
    elif answer.headers["content-type"].startswith("text/event-stream"):
        check_events(answer.text)
    else:
        msgspec.json.decode(answer.content)
    if path == "/admin/batching":
        # Else the next requests would wait for a batch to fill.
        client.post(path, json={"type": "continuous"}).raise_for_status()


odd_headers = st.dictionaries(
    st.sampled_from(
        ["accept", "content-type", "content-encoding", "expect", "origin", "host"]
    ),
    st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20),
    max_size=3,
)


@many
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "ODD"]),
    path=st.sampled_from([one.path for one in OPERATIONS if "trace" not in one.path])
    | st.text(
        st.characters(codec="ascii", exclude_characters="\x00\r\n?#"), max_size=9
    ).map(lambda text: f"/v1/{text}"),
    headers=odd_headers,
)
def test_any_method_path_and_header_is_answered_in_shape(
    watched, client, method, path, headers
):
    raw = [
        (name.encode(), value.strip().encode("latin-1"))
        for name, value in headers.items()
    ]
    try:
        request = client.build_request(method, path, headers=raw)
    except (httpx.InvalidURL, ValueError):
        return
    answer = client.send(request)
    assert answer.status_code != 500
    if answer.status_code >= 400 and method != "HEAD":
        check_refusal(answer.status_code, answer.content)
