"""Responses WebSocket mode, frame by frame."""

import asyncio

import pytest

from legato.protocol.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineFailed,
    Overloaded,
)
from legato.protocol.requests import ChatMessage, Delta, FinishReason, Usage

pytestmark = pytest.mark.anyio

CREATE = {"type": "response.create", "model": "scripted", "input": "hi"}
TERMINAL = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)


async def test_a_response_is_the_public_sequence_of_events(connect):
    socket = await connect()
    socket.send(CREATE)
    events = await socket.until(*TERMINAL)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))
    assert not any("stream_id" in event for event in events)
    assert [e["delta"] for e in events[4:6]] == ["Hel", "lo"]
    assert events[6]["text"] == "Hello"
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert response["usage"]["output_tokens"] == 2
    assert response["id"] == events[0]["response"]["id"]
    items = {e["item_id"] for e in events if "item_id" in e}
    assert items == {response["output"][0]["id"]}


async def test_instructions_and_items_become_a_conversation(connect, engine):
    socket = await connect()
    part = {"type": "input_text", "text": "hi"}
    message = {"type": "message", "role": "user", "content": [part]}
    earlier = {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "yes?", "annotations": []}],
    }
    socket.send(
        {
            "type": "response.create",
            "instructions": "be brief",
            "input": [earlier, message],
            "max_output_tokens": 9,
            "top_p": 0.5,
        }
    )
    events = await socket.until(*TERMINAL)
    ((prompt, params, _),) = engine.requests
    assert prompt == (
        ChatMessage("system", "be brief"),
        ChatMessage("assistant", "yes?"),
        ChatMessage("user", "hi"),
    )
    assert (params.max_tokens, params.top_p, params.temperature) == (9, 0.5, 0.25)
    assert events[0]["response"]["instructions"] == "be brief"


async def test_a_cut_response_is_incomplete_and_says_why(connect, engine, deltas):
    engine.script = deltas("x", reason=FinishReason.LENGTH)
    socket = await connect()
    socket.send(CREATE)
    last = (await socket.until(*TERMINAL))[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert last["response"]["output"][0]["status"] == "incomplete"


async def test_lanes_run_side_by_side_and_each_in_order(connect, engine, deltas):
    hold = asyncio.Event()
    engine.scripts.extend([[hold, *deltas("a1")], deltas("b1"), deltas("a2")])
    socket = await connect()
    for lane in ("a", "b", "a"):
        socket.send({**CREATE, "stream_id": lane})
        if lane == "a" and engine.open == 0:
            await engine.until_open(1)
    events = await socket.until("response.completed")
    assert events[-1]["stream_id"] == "b"
    assert {e["stream_id"] for e in events if e["type"] == "response.created"} == {
        "a",
        "b",
    }
    hold.set()
    first = await socket.until("response.completed")
    assert first[-1]["response"]["output"][0]["content"][0]["text"] == "a1"
    second = await socket.until("response.completed")
    assert [e["sequence_number"] for e in second] == list(range(len(second)))
    assert {e["stream_id"] for e in second} == {"a"}
    assert second[-1]["response"]["output"][0]["content"][0]["text"] == "a2"


async def test_a_running_response_is_cancelled_by_its_id(connect, engine):
    engine.script = [Delta("He"), asyncio.Event()]
    socket = await connect()
    socket.send(CREATE)
    created = (await socket.until("response.output_text.delta"))[0]["response"]["id"]
    socket.send({"type": "response.cancel", "response_id": created})
    events = await socket.until(*TERMINAL)
    assert events[-1]["type"] == "response.cancelled"
    assert events[-1]["response"]["status"] == "cancelled"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "He"
    await engine.until_open(0)
    socket.send({"type": "response.cancel", "response_id": created})
    socket.send({**CREATE, "input": []})
    assert (await socket.receive())["error"]["param"] == "input"


async def test_a_response_is_cancelled_before_its_first_token(connect, engine):
    engine.script = [asyncio.Event()]
    socket = await connect()
    socket.send(CREATE)
    socket.send({"type": "response.cancel"})
    events = await socket.until(*TERMINAL)
    assert [e["type"] for e in events] == [
        "response.created",
        "response.in_progress",
        "response.cancelled",
    ]
    assert events[-1]["response"]["output"] == []


async def test_cancelling_a_lane_ends_what_waits_in_it_too(connect, engine):
    engine.script = [asyncio.Event()]
    socket = await connect()
    for _ in range(3):
        socket.send({**CREATE, "stream_id": "a"})
    await engine.until_open(1)
    socket.send({"type": "response.cancel", "stream_id": "a"})
    ids = set()
    for _ in range(3):
        event = (await socket.until(*TERMINAL))[-1]
        assert event["type"] == "response.cancelled"
        ids.add(event["response"]["id"])
    assert len(ids) == 3
    assert len(engine.requests) == 1


async def test_cancelling_what_never_was_names_the_field(connect):
    socket = await connect()
    socket.send({"type": "response.cancel", "response_id": "resp_no"})
    event = await socket.receive()
    assert (event["type"], event["status"]) == ("error", 404)
    assert event["error"]["param"] == "response_id"


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ("{", None),
        ("[]", None),
        ('"x"', None),
        (b"\x00\x01", None),
        ("[" * 5000, None),
        ({}, "type"),
        ({"type": 5}, "type"),
        ({"type": "response.creat"}, "type"),
        ({"type": "response.create"}, "input"),
        ({**CREATE, "input": 5}, "input"),
        ({**CREATE, "input": []}, "input"),
        ({**CREATE, "input": [{"type": "item_reference"}]}, "input[0].type"),
        (
            {**CREATE, "input": [{"type": "function_call_output", "call_id": "c"}]},
            "input[0].output",
        ),
        ({**CREATE, "input": [{"role": "bogus", "content": ""}]}, "input[0].role"),
        ({**CREATE, "temprature": 1}, "temprature"),
        ({**CREATE, "temperature": "hot"}, "temperature"),
        ({**CREATE, "temperature": -1}, "temperature"),
        ('{"type":"response.create","input":"x","temperature":NaN}', "temperature"),
        ({**CREATE, "max_output_tokens": 0}, "max_output_tokens"),
        ({**CREATE, "max_output_tokens": -5}, "max_output_tokens"),
        ({**CREATE, "previous_response_id": "resp_1"}, "previous_response_id"),
        ({**CREATE, "text": {"format": {"type": "json_schema"}}}, "text.format.name"),
        ({**CREATE, "text": {"verbosity": "low"}}, "text.verbosity"),
        ({**CREATE, "tools": [{"type": "function"}]}, "tools[0].name"),
        ({**CREATE, "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({**CREATE, "tools": {}}, "tools"),
        ({**CREATE, "tool_choice": "required"}, "tool_choice"),
        ({**CREATE, "stream_id": ""}, "stream_id"),
        ({**CREATE, "stream_id": 7}, "stream_id"),
        ({**CREATE, "stream_id": "x" * 65}, "stream_id"),
        ({**CREATE, "model": "other"}, "model"),
        ({"type": "response.cancel", "respons_id": "x"}, "respons_id"),
    ],
)
async def test_a_bad_frame_gets_an_error_and_the_socket_lives(
    connect, engine, frame, param
):
    socket = await connect()
    socket.send(frame)
    event = await socket.receive()
    assert event["type"] == "error"
    assert event["error"]["param"] == param
    assert event["error"]["message"]
    assert 400 <= event["status"] < 500
    assert engine.requests == []
    socket.send(CREATE)
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_an_error_of_a_lane_echoes_it(connect):
    socket = await connect()
    socket.send({**CREATE, "stream_id": "a", "temperature": -1})
    assert (await socket.receive())["stream_id"] == "a"


async def test_an_unknown_event_type_names_the_nearest(connect):
    socket = await connect()
    socket.send({"type": "response.creat"})
    assert "response.create" in (await socket.receive())["error"]["message"]


async def test_too_many_lanes_are_refused_and_the_others_run(connect, engine, make_app):
    engine.script = [asyncio.Event()]
    socket = await connect(app=make_app(max_lanes=2))
    for lane in ("a", "b", "c"):
        socket.send({**CREATE, "stream_id": lane})
    events = await socket.until("error")
    assert events[-1]["stream_id"] == "c"
    assert events[-1]["status"] == 429
    assert events[-1]["error"]["param"] == "stream_id"
    await engine.until_open(2)


async def test_too_many_responses_are_refused(connect, engine, make_app):
    engine.script = [asyncio.Event()]
    socket = await connect(app=make_app(max_in_flight=2))
    for _ in range(3):
        socket.send(CREATE)
    events = await socket.until("error")
    assert events[-1]["error"]["code"] == "too_many_responses"


async def test_many_lanes_one_after_another_are_fine(connect, make_app):
    socket = await connect(app=make_app(max_lanes=1))
    for number in range(20):
        socket.send({**CREATE, "stream_id": f"lane-{number}"})
        last = (await socket.until(*TERMINAL))[-1]
        assert last["stream_id"] == f"lane-{number}"


async def test_a_refusal_at_the_door_is_an_error_without_a_response(connect, engine):
    engine.refusal = Overloaded("full", retry_after_s=2)
    socket = await connect()
    socket.send({**CREATE, "stream_id": "a"})
    event = await socket.receive()
    assert event["type"] == "error"
    assert (event["status"], event["stream_id"]) == (429, "a")
    assert event["error"]["headers"]["retry-after"] == "2"


async def test_a_prompt_that_cannot_fit_ends_in_error_and_failed(connect, engine):
    engine.script = [ContextOverflow(9, 5, "the context")]
    socket = await connect()
    socket.send(CREATE)
    events = await socket.until(*TERMINAL)
    *_, error, failed = events
    assert error["error"]["code"] == "context_length_exceeded"
    assert error["error"]["param"] == "input"
    assert error["status"] == 400
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "invalid_prompt"
    assert [e["sequence_number"] for e in events] == list(range(len(events)))


async def test_an_engine_that_fails_in_mid_answer_is_told_without_its_words(
    connect, engine
):
    engine.script = [Delta("He"), EngineFailed("secret")]
    socket = await connect()
    socket.send(CREATE)
    events = await socket.until(*TERMINAL)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "He"
    assert "secret" not in str(events)
    assert sum(event["type"] in TERMINAL for event in events) == 1


async def test_a_message_over_the_limit_closes_with_1009(connect, make_app):
    socket = await connect(app=make_app(max_frame_bytes=100))
    socket.send("x" * 101)
    message = await socket.raw()
    assert (message["type"], message["code"]) == ("websocket.close", 1009)


async def test_the_limit_counts_bytes_and_not_characters(connect, make_app):
    socket = await connect(app=make_app(max_frame_bytes=100))
    socket.send("é" * 51)
    assert (await socket.raw())["code"] == 1009


async def test_leaving_lets_go_of_every_response(connect, engine):
    engine.script = [Delta("x"), asyncio.Event()]
    socket = await connect()
    for lane in ("a", "b", "b"):
        socket.send({**CREATE, "stream_id": lane})
    await engine.until_open(2)
    socket.disconnect()
    await socket.task
    assert engine.open == 0


async def test_a_slow_reader_stops_the_pulling_and_others_go_on(
    connect, engine, make_app, deltas
):
    engine.scripts.append([Delta("x")] * 1000)
    app = make_app(outbox_entries=4)
    slow = await connect(app=app)
    quick = await connect(app=app)
    slow.stall()
    slow.send(CREATE)
    await engine.until_open(1)
    quick.send(CREATE)
    await quick.until(*TERMINAL)
    for _ in range(50):
        await asyncio.sleep(0)
    assert engine.pulled < 20
    slow.resume()
    socket_events = await slow.until("response.output_text.delta")
    assert socket_events[-1]["delta"] == "x"


async def test_a_reader_that_reads_nothing_is_closed_with_a_reason(
    connect, engine, make_app
):
    engine.script = [Delta("x")] * 1000
    closed = asyncio.get_running_loop().create_future()
    extensions = {"legato.close": lambda code, why: closed.set_result((code, why))}
    app = make_app(send_deadline_s=0.01)
    socket = await connect(app=app, extensions=extensions)
    socket.stall()
    socket.send(CREATE)
    code, why = await closed
    assert code == 1008
    assert "nothing was read" in why
    await socket.task
    assert engine.open == 0


async def test_a_client_that_sends_rubbish_and_never_reads_is_closed(connect):
    closed = asyncio.get_running_loop().create_future()
    extensions = {"legato.close": lambda code, why: closed.set_result((code, why))}
    socket = await connect(extensions=extensions)
    socket.stall()
    for _ in range(200):
        socket.send("{")
    assert (await closed)[0] == 1008


async def test_a_drain_refuses_new_responses_and_finishes_running_ones(
    connect, engine, app
):
    hold = asyncio.Event()
    end = Delta("", (), (), FinishReason.STOP, Usage(1, 1))
    engine.script = [Delta("He"), hold, end]
    socket = await connect()
    socket.send({**CREATE, "stream_id": "a"})
    await socket.until("response.output_text.delta")
    app.gate.close()
    socket.send({**CREATE, "stream_id": "b"})
    refused = await socket.receive()
    assert (refused["type"], refused["status"]) == ("error", 503)
    hold.set()
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_logprobs_come_with_deltas_when_asked(connect, engine):
    from legato.protocol.steps import TokenLogprobs

    entry = TokenLogprobs(-0.5, (66,), (-0.4,))
    end = Delta("", (), (), FinishReason.STOP, Usage(1, 1))
    engine.script = [Delta("A", (65,), (entry,)), end]
    socket = await connect()
    socket.send({**CREATE, "include": ["message.output_text.logprobs"]})
    events = await socket.until(*TERMINAL)
    (delta,) = [e for e in events if e["type"] == "response.output_text.delta"]
    assert delta["logprobs"][0]["token"] == "A"
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"]


async def test_terms_go_to_the_engine(connect, engine):
    socket = await connect()
    socket.send({**CREATE, "priority": 5, "total_deadline_s": 2, "user": "ada"})
    await socket.until(*TERMINAL)
    terms = {"priority": 5, "ttft_deadline_s": 0.0, "total_deadline_s": 2.0}
    assert engine.terms == [terms]
    assert engine.requests[0][2] == "ada"


async def test_a_deadline_that_passes_is_an_error_event_and_the_end(connect, engine):
    engine.script = [Delta("He"), DeadlineExceeded("not done within 1 s")]
    socket = await connect()
    socket.send({**CREATE, "total_deadline_s": 1})
    *_, error, _, _, _, last = await socket.until(*TERMINAL)
    assert (error["type"], error["status"]) == ("error", 504)
    assert error["error"]["code"] == "deadline_exceeded"
    assert last["type"] == "response.failed"


async def test_a_sockets_key_is_the_tenant_of_all_its_responses(
    connect, engine, make_app
):
    headers = {"authorization": "Bearer secret"}
    socket = await connect(headers=headers, app=make_app(api_keys=("secret",)))
    for user in ("ada", "bob"):
        socket.send({**CREATE, "user": user})
        await socket.until(*TERMINAL)
    (tenant,) = {tenant for _, _, tenant in engine.requests}
    assert tenant.startswith("key-")
    assert "secret" not in tenant
