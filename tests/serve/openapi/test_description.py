"""The description against the code: same routes, same fields, same ranges."""

import math

import msgspec
import pytest

from legato.protocol.errors import LegatoError
from legato.protocol.openai.chat import ChatRequest, read_chat
from legato.protocol.openai.completion import CompletionRequest, read_completion
from legato.serve.admin import read_batching
from legato.serve.openapi import OPERATIONS
from legato.serve.openapi.answers import (
    ChatCompletion,
    HealthReport,
    ModelList,
    Refused,
    TextCompletion,
)
from legato.serve.openapi.description import describe
from legato.serve.openapi.limits import LIMITS

MESSAGES = [{"role": "user", "content": "hi"}]
DESCRIBED = describe(OPERATIONS)


def test_every_route_is_described_and_every_description_is_a_route(app):
    described = {(one.path, one.method) for one in OPERATIONS}
    # What a page asks for behind its own scenes is no part of the API.
    served = {one for one in app.routes() if not one[0].startswith("/playground/")}
    assert described == served
    assert len(described) == len(OPERATIONS)


@pytest.mark.anyio
async def test_it_is_served_without_a_key_and_says_where_one_is_needed(make_app, call):
    for keys in ((), ("secret",)):
        answer = await call("GET", "/openapi.json", app=make_app(api_keys=keys))
        paths = answer.json["paths"]
        assert answer.json["openapi"] == "3.1.0"
        chat = paths["/v1/chat/completions"]["post"]
        assert bool(chat["security"]) == bool(keys)
        assert ("401" in chat["responses"]) == bool(keys)
        assert paths["/health"]["get"]["security"] == []
        assert paths["/admin/batching"]["post"]["security"] == [{"key": []}]


@pytest.mark.anyio
async def test_it_names_the_place_where_it_is_mounted(app, call):
    answer = await call("GET", "/llm/openapi.json", root_path="/llm")
    assert answer.json["servers"] == [{"url": "/llm"}]


@pytest.mark.parametrize("kind", [ChatRequest, CompletionRequest])
def test_a_body_has_the_fields_of_its_struct_and_no_others(kind):
    schema = DESCRIBED["components"]["schemas"][kind.__name__]
    assert set(schema["properties"]) == set(kind.__struct_fields__)
    assert schema["additionalProperties"] is False


def test_a_reference_leads_somewhere():
    schemas = DESCRIBED["components"]["schemas"]
    names = {
        part.partition('"')[0]
        for part in msgspec.json.encode(DESCRIBED)
        .decode()
        .split('"#/components/schemas/')[1:]
    }
    assert names <= set(schemas)
    assert set(schemas) <= names


READERS = {
    ChatRequest: (lambda body: read_chat(body, {}), {"messages": MESSAGES}),
    CompletionRequest: (lambda body: read_completion(body, {}), {"prompt": "hi"}),
}
BESIDE = {"top_logprobs": {"logprobs": True}, "min_tokens": {"max_tokens": 2**31 - 1}}


def takes(kind, name, value):
    """Whether a body with this value in this field can be read."""
    read, least = READERS[kind]
    try:
        read(msgspec.json.encode({**least, **BESIDE.get(name, {}), name: value}))
    except LegatoError as error:
        return error.field != name
    return True


def ends(limits):
    """Pairs of a value that just passes and its neighbour that does not."""
    for end, step in (("minimum", -1), ("maximum", 1)):
        if end in limits:
            yield limits[end], limits[end] + step
    if "exclusiveMinimum" in limits:
        yield math.nextafter(limits["exclusiveMinimum"], 1), 0
    if "maxLength" in limits:
        yield "x" * limits["maxLength"], "x" * (limits["maxLength"] + 1)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", LIMITS)
def test_a_range_is_the_one_that_is_checked(kind, name):
    if name not in kind.__struct_fields__ or (kind, name) == (ChatRequest, "logprobs"):
        assert name in RANGES_ELSEWHERE
        return
    for right, wrong in ends(LIMITS[name]):
        assert takes(kind, name, right)
        assert not takes(kind, name, wrong)


RANGES_ELSEWHERE = {
    # Of the other kind of request, of responses, or of a batching strategy.
    *("max_completion_tokens", "top_logprobs", "safety_identifier", "logprobs"),
    *("max_output_tokens", "max_batch", "size", "max_delay_s", "max_wait_s"),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("dynamic", "max_batch"),
        ("dynamic", "max_delay_s"),
        ("static", "size"),
        ("static", "max_wait_s"),
    ],
)
def test_a_range_of_batching_is_the_one_that_is_checked(kind, name):
    for right, wrong in ends(LIMITS[name]):
        read_batching(msgspec.json.encode({"type": kind, name: right}))
        with pytest.raises(LegatoError):
            read_batching(msgspec.json.encode({"type": kind, name: wrong}))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("POST", "/v1/chat/completions", {"messages": MESSAGES}, ChatCompletion),
        ("POST", "/v1/completions", {"prompt": "hi"}, TextCompletion),
        ("POST", "/v1/completions", {}, Refused),
        ("GET", "/v1/models", None, ModelList),
        ("GET", "/nowhere", None, Refused),
        ("GET", "/health", None, HealthReport),
    ],
)
async def test_an_answer_is_what_is_described(call, method, path, body, kind):
    answer = await call(method, path, body)
    assert msgspec.convert(answer.json, kind, strict=True)
