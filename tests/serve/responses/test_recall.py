"""Going on from earlier responses, over sockets and HTTP."""

import pytest

from legato.protocol.errors import Overloaded
from legato.protocol.requests import ChatMessage
from legato.serve.responses.recall import MAX_REMEMBERED, Recall
from legato.serve.responses.store import MemoryStore, Stored, StoreLimits

pytestmark = pytest.mark.anyio
CREATE = {"type": "response.create", "input": "hi"}
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
TURNS = (ChatMessage("user", "hi"), ChatMessage("assistant", "Hello"))


async def create(socket, **fields):
    socket.send({**CREATE, **fields})
    return (await socket.until(*ENDS))[-1]


async def test_the_next_turn_sends_only_what_is_new(connect, engine):
    socket = await connect()
    first = await create(socket)
    second = await create(
        socket, input="and?", previous_response_id=first["response"]["id"]
    )
    assert second["response"]["previous_response_id"] == first["response"]["id"]
    await create(socket, input="so?", previous_response_id=second["response"]["id"])
    assert engine.requests[1][0] == (*TURNS, ChatMessage("user", "and?"))
    assert engine.requests[2][0] == (
        *TURNS,
        ChatMessage("user", "and?"),
        ChatMessage("assistant", "Hello"),
        ChatMessage("user", "so?"),
    )


async def test_instructions_are_not_carried_over(connect, engine):
    socket = await connect()
    first = await create(socket, instructions="be brief")
    name = first["response"]["id"]
    await create(socket, previous_response_id=name)
    await create(socket, previous_response_id=name, instructions="rhyme")
    assert engine.requests[1][0][0] == ChatMessage("user", "hi")
    assert engine.requests[2][0][0] == ChatMessage("system", "rhyme")


async def test_a_stored_response_is_found_from_another_socket_and_over_http(
    connect, engine, call
):
    name = (await create(await connect()))["response"]["id"]
    await create(await connect(), previous_response_id=name)
    body = {"input": "hi", "previous_response_id": name}
    assert (await call("POST", "/v1/responses", body)).status == 200
    for prompt, _, _ in engine.requests[1:]:
        assert prompt == (*TURNS, ChatMessage("user", "hi"))


async def test_an_unstored_one_is_found_on_its_own_socket_alone(connect, call):
    socket = await connect()
    name = (await create(socket, store=False))["response"]["id"]
    again = await create(
        socket, store=False, previous_response_id=name, stream_id="fork"
    )
    assert again["type"] == "response.completed"
    lost = await create(await connect(), previous_response_id=name)
    assert lost["error"]["code"] == "previous_response_not_found"
    assert (await call("GET", f"/v1/responses/{name}")).status == 404


async def test_only_the_latest_unstored_one_of_a_lane_is_remembered(connect):
    socket = await connect()
    first = await create(socket, store=False)
    await create(socket, store=False)
    event = await create(socket, previous_response_id=first["response"]["id"])
    assert event["error"]["code"] == "previous_response_not_found"


async def test_what_never_was_is_refused_by_its_code_and_nothing_begins(
    connect, engine, call
):
    socket = await connect()
    event = await create(socket, previous_response_id="resp_no", stream_id="a")
    assert (event["status"], event["stream_id"]) == (400, "a")
    assert event["error"]["code"] == "previous_response_not_found"
    assert event["error"]["param"] == "previous_response_id"
    body = {"input": "hi", "previous_response_id": "resp_no"}
    for stream in (False, True):
        answer = await call("POST", "/v1/responses", {**body, "stream": stream})
        assert answer.status == 400
        assert answer.error["code"] == "previous_response_not_found"
    assert engine.requests == []


async def test_a_turn_that_fails_takes_an_unstored_previous_one_with_it(
    connect, engine
):
    socket = await connect()
    name = (await create(socket, store=False))["response"]["id"]
    engine.refusal = Overloaded("full", retry_after_s=1)
    assert (await create(socket, previous_response_id=name))["status"] == 429
    engine.refusal = None
    event = await create(socket, previous_response_id=name)
    assert event["error"]["code"] == "previous_response_not_found"


async def test_a_turn_waits_in_its_lane_for_the_one_it_goes_on_from(connect, engine):
    socket = await connect()
    socket.send(CREATE)
    name = (await socket.receive())["response"]["id"]
    socket.send({**CREATE, "input": "and?", "previous_response_id": name})
    await socket.until("response.completed")
    await socket.until("response.completed")
    assert engine.requests[1][0] == (*TURNS, ChatMessage("user", "and?"))


async def test_a_prompt_is_taken_up_without_an_answer(connect, engine):
    socket = await connect()
    socket.send({**CREATE, "generate": False, "instructions": "be brief"})
    events = await socket.until(*ENDS)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    response = events[-1]["response"]
    assert response["output"] == []
    assert response["usage"]["output_tokens"] == 0
    assert engine.requests[0][1].max_tokens == 1
    await create(socket, input="and?", previous_response_id=response["id"])
    assert engine.requests[1][0] == (
        ChatMessage("user", "hi"),
        ChatMessage("user", "and?"),
    )


async def test_another_keys_responses_cannot_be_reached(connect, call, make_app):
    app = make_app(api_keys=("a-key", "b-key"))
    mine, theirs = (
        {"authorization": "Bearer a-key"},
        {"authorization": "Bearer b-key"},
    )
    name = (await create(await connect(headers=mine, app=app)))["response"]["id"]
    event = await create(
        await connect(headers=theirs, app=app), previous_response_id=name
    )
    assert event["error"]["code"] == "previous_response_not_found"
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/input_items"),
    ):
        url = f"/v1/responses/{name}{path}"
        assert (await call(method, url, headers=theirs, app=app)).status == 404
    url = f"/v1/responses/{name}"
    assert (await call("GET", url, headers=mine, app=app)).status == 200


def test_lanes_are_not_remembered_without_bound():
    recall = Recall(MemoryStore(StoreLimits(entries=1, max_bytes=1, ttl_s=1.0)), "")
    for number in range(MAX_REMEMBERED + 5):
        one = Stored(name=f"{number}", tenant="", response=b"", items=b"", turns=())
        recall.keep(f"lane {number}", one, for_all=False)
    assert len(recall._latest) == MAX_REMEMBERED
