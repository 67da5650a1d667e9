"""Frames about responses under way: credit, stop, update, cancel."""

import asyncio

import pytest

from legato.protocol.requests import Delta, FinishReason, Usage

pytestmark = pytest.mark.anyio
CREATE = {"type": "response.create", "input": "hi"}
TERMINAL = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)


def running(*texts):
    """A script that says some words and then waits for ever."""
    return [*(Delta(text, (1,)) for text in texts), asyncio.Event()]


async def test_a_response_without_credit_pauses_and_goes_on(connect, engine, deltas):
    engine.script = deltas("a", "b", "c", "d")
    socket = await connect()
    socket.send({**CREATE, "credit": 2, "stream_id": "x"})
    events = await socket.until("response.paused")
    assert [e["delta"] for e in events if "delta" in e] == ["a", "b"]
    paused = events[-1]
    name = events[0]["response"]["id"]
    assert paused == {
        "type": "response.paused",
        "legato": 1,
        "response_id": name,
        "output_tokens": 2,
        "stream_id": "x",
    }
    socket.send({"type": "response.credit", "response_id": name, "tokens": 1})
    assert (await socket.receive())["delta"] == "c"
    assert (await socket.receive())["output_tokens"] == 3
    socket.send({"type": "response.credit", "stream_id": "x", "tokens": 9})
    rest = await socket.until(*TERMINAL)
    numbered = [e["sequence_number"] for e in events + rest if "sequence_number" in e]
    assert numbered == [*range(6), *range(7, 12)]
    assert rest[-1]["response"]["output"][0]["content"][0]["text"] == "abcd"


async def test_a_response_may_start_paused(connect, engine):
    socket = await connect()
    socket.send({**CREATE, "credit": 0})
    events = await socket.until("response.paused")
    assert [e["type"] for e in events][:2] == [
        "response.created",
        "response.in_progress",
    ]
    socket.send({"type": "response.credit", "tokens": 100})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_credit_for_one_without_a_ration_and_for_one_that_ended_is_no_error(
    connect, engine
):
    socket = await connect()
    socket.send({"type": "response.credit", "tokens": 1})
    socket.send(CREATE)
    socket.send({"type": "response.credit", "tokens": 1})
    last = (await socket.until(*TERMINAL))[-1]
    name = last["response"]["id"]
    socket.send({"type": "response.credit", "response_id": name, "tokens": 1})
    socket.send({"type": "response.stop", "response_id": name})
    socket.send(CREATE)
    assert (await socket.receive())["type"] == "response.created"


async def test_credit_that_comes_while_it_waits_in_its_lane_counts(connect, engine):
    engine.scripts.append(running("x"))
    socket = await connect()
    socket.send(CREATE)
    first = (await socket.until("response.output_text.delta"))[0]["response"]["id"]
    socket.send({**CREATE, "credit": 1})
    socket.send({"type": "response.cancel", "response_id": first})
    await socket.until(*TERMINAL)
    events = await socket.until("response.paused")
    assert [e["delta"] for e in events if "delta" in e] == ["Hel"]


async def test_a_stop_ends_it_as_its_limit_would(connect, engine):
    engine.scripts.append(running("He", "llo"))
    socket = await connect()
    socket.send(CREATE)
    while (event := await socket.receive()).get("delta") != "llo":
        pass
    socket.send({"type": "response.stop"})
    events = await socket.until(*TERMINAL)
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert event["sequence_number"] < events[-1]["sequence_number"]
    socket.send({**CREATE, "previous_response_id": response["id"]})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_a_response_is_stopped_before_it_begins(connect, engine):
    engine.scripts.append(running("x"))
    socket = await connect()
    socket.send(CREATE)
    await socket.until("response.output_text.delta")
    socket.send({"type": "response.stop"})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.incomplete"
    await engine.until_open(0)


async def test_an_update_changes_what_runs_and_is_answered(connect, engine):
    engine.script = running("x")
    socket = await connect()
    socket.send({**CREATE, "stream_id": "a"})
    name = (await socket.until("response.output_text.delta"))[0]["response"]["id"]
    frame = {"type": "response.update", "response_id": name, "max_output_tokens": 7}
    socket.send(frame)
    assert await socket.receive() == {
        "type": "response.updated",
        "legato": 1,
        "response_id": name,
        "max_output_tokens": 7,
        "stream_id": "a",
    }
    socket.send({"type": "response.update", "stream_id": "a", "priority": -4})
    assert (await socket.receive())["priority"] == -4
    assert engine.amendments == [
        {"max_tokens": 7, "priority": None},
        {"max_tokens": None, "priority": -4},
    ]
    socket.send({"type": "response.stop", "stream_id": "a"})
    last = (await socket.until(*TERMINAL))[-1]
    assert last["response"]["max_output_tokens"] == 7


async def test_an_update_of_what_does_not_run_is_refused(connect, engine):
    engine.script = running("x")
    socket = await connect()
    socket.send({"type": "response.update", "priority": 1})
    assert (await socket.receive())["error"]["code"] == "response_not_running"
    socket.send({"type": "response.update", "response_id": "resp_no", "priority": 1})
    event = await socket.receive()
    assert (event["status"], event["response_id"]) == (404, "resp_no")
    assert event["error"]["code"] == "response_not_found"


async def test_a_frame_of_another_version_is_refused(connect):
    socket = await connect()
    socket.send({"type": "response.stop", "legato": 2})
    event = await socket.receive()
    assert event["error"]["code"] == "unsupported_version"
    socket.send({**CREATE, "legato": 1})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_messagepack_says_the_same_in_binary(connect, engine, deltas):
    import msgspec

    engine.script = deltas("é", usage=Usage(1, 1), reason=FinishReason.STOP)
    socket = await connect(subprotocols=["chat", "legato.msgpack"])
    assert socket.accepted["subprotocol"] == "legato.msgpack"
    assert (b"legato-extensions", b"1") in socket.accepted["headers"]
    socket.send(msgspec.msgpack.encode({**CREATE, "credit": 5}))
    events = await socket.until(*TERMINAL)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "é"
    socket.send("{}")
    assert (await socket.receive())["error"]["code"] == "text_frame"
    socket.send(b"\xc1")
    assert (await socket.receive())["error"]["code"] == "invalid_msgpack"


async def test_unknown_subprotocols_are_passed_over_and_keys_never_echoed(connect):
    socket = await connect(subprotocols=["graphql-ws", "openai-insecure-api-key.k"])
    assert "subprotocol" not in socket.accepted
    socket = await connect(subprotocols=["openai-insecure-api-key.k", "legato.json"])
    assert socket.accepted["subprotocol"] == "legato.json"


async def test_a_connection_that_is_too_old_takes_no_more_and_closes(
    connect, engine, make_app
):
    hold = asyncio.Event()
    engine.script = [
        Delta("x", (1,)),
        hold,
        Delta("", (), (), FinishReason.STOP, Usage(1, 1)),
    ]
    socket = await connect(app=make_app(max_connection_s=0.01))
    socket.send(CREATE)
    events = await socket.until("error")
    assert events[-1]["error"]["code"] == "websocket_connection_limit_reached"
    socket.send(CREATE)
    assert (await socket.receive())["status"] == 400
    hold.set()
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"
    message = await socket.raw()
    assert (message["type"], message["code"]) == ("websocket.close", 1000)
