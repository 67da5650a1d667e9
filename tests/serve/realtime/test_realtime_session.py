"""A Realtime session, event by event, over an engine that answers by script."""

import asyncio
import random

import msgspec
import pytest

from legato.protocol.errors import Overloaded
from legato.protocol.openai.realtime_conversation import MAX_ITEMS
from legato.protocol.requests import ChatMessage, Delta, FinishReason, Usage
from legato.serve.connection import is_longer

pytestmark = pytest.mark.anyio

DONE = "response.done"
CREATE = {"type": "response.create"}


def say(text, **fields):
    part = {"type": "input_text", "text": text}
    item = {"type": "message", "role": "user", "content": [part]}
    return {"type": "conversation.item.create", "item": item, **fields}


def ask(**response):
    return CREATE | {"response": response}


@pytest.fixture
def open_session(connect):
    """Open a session and return its socket, past ``session.created``."""

    async def run(**options):
        socket = await connect("/v1/realtime", **options)
        created = await socket.receive()
        assert created["type"] == "session.created"
        socket.session = created["session"]
        return socket

    return run


async def kinds_until(socket, *kinds):
    return [event["type"] for event in await socket.until(*kinds)]


async def test_a_session_begins_with_its_settings(open_session):
    session = (await open_session()).session
    assert session["id"].startswith("sess_")
    assert (session["model"], session["object"]) == ("scripted", "realtime.session")
    assert session["output_modalities"] == ["text"]
    assert session["max_output_tokens"] == "inf"


async def test_a_turn_is_the_specifications_sequence_of_events(open_session):
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    events = await socket.until(DONE)
    assert [event["type"] for event in events] == [
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)
    user, opened = events[0]["item"], events[4]
    assert opened["previous_item_id"] == user["id"]
    assert (opened["item"]["status"], opened["item"]["content"]) == ("in_progress", [])
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"] == [events[-2]["item"]]
    assert response["output"][0]["content"] == [
        {"type": "output_text", "text": "Hello"}
    ]
    assert response["usage"]["input_token_details"]["cached_tokens"] == 1
    assert response["usage"]["total_tokens"] == 5


async def test_the_next_turn_reads_all_before_it(open_session, engine):
    socket = await open_session()
    update = {"type": "realtime", "instructions": "be brief"}
    socket.send({"type": "session.update", "session": update})
    for text in ("hi", "and now?"):
        socket.send(say(text))
        socket.send(CREATE)
        await socket.until(DONE)
    assert engine.requests[-1][0] == (
        ChatMessage("system", "be brief"),
        ChatMessage("user", "hi"),
        ChatMessage("assistant", "Hello"),
        ChatMessage("user", "and now?"),
    )


async def test_an_update_changes_only_what_it_names(open_session, engine):
    socket = await open_session()
    for change in ({"temperature": 0.5, "max_output_tokens": 7}, {"seed": 3}):
        change |= {"type": "realtime"}
        socket.send({"type": "session.update", "session": change})
        updated = await socket.receive()
    assert updated["type"] == "session.updated"
    assert updated["session"]["max_output_tokens"] == 7
    socket.send(say("hi"))
    socket.send(ask(temperature=0.75))
    await socket.until(DONE)
    params = engine.requests[0][1]
    assert (params.temperature, params.max_tokens, params.seed) == (0.75, 7, 3)
    cleared = {"type": "realtime", "max_output_tokens": "inf", "seed": None}
    socket.send({"type": "session.update", "session": cleared})
    assert (await socket.receive())["session"]["max_output_tokens"] == "inf"
    socket.send(CREATE)
    await socket.until(DONE)
    assert engine.requests[1][1].seed is None


async def test_a_refused_update_changes_nothing(open_session):
    socket = await open_session()
    change = {"type": "realtime", "instructions": "x", "temperature": -1}
    socket.send({"type": "session.update", "session": change, "event_id": "mine"})
    error = (await socket.receive())["error"]
    assert (error["param"], error["event_id"]) == ("session.temperature", "mine")
    socket.send({"type": "session.update", "session": {"type": "realtime"}})
    assert (await socket.receive())["session"]["instructions"] == ""


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({}, "session.type"),
        ({"type": "transcription"}, "session.type"),
        ({"type": "realtime", "output_modalities": ["audio"]}, None),
        ({"type": "realtime", "audio": {"output": {"voice": "alloy"}}}, None),
        ({"type": "realtime", "tools": [{"type": "function"}]}, None),
        ({"type": "realtime", "tracing": "auto"}, None),
        ({"type": "realtime", "truncation": "auto"}, None),
        ({"type": "realtime", "model": "gpt-realtime"}, "model"),
        ({"type": "realtime", "max_output_tokens": 0}, None),
        ({"type": "realtime", "voice": "alloy"}, None),
        ({"type": "realtime", "instructions": 5}, None),
    ],
)
async def test_what_a_session_cannot_be_is_refused_by_name(
    open_session, session, param
):
    socket = await open_session()
    socket.send({"type": "session.update", "session": session})
    event = await socket.receive()
    assert event["type"] == "error"
    named = param or f"session.{list(session)[-1]}"
    assert event["error"]["param"] == named


async def test_audio_that_is_switched_off_is_accepted(open_session):
    socket = await open_session()
    off = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    socket.send({"type": "session.update", "session": off})
    assert (await socket.receive())["type"] == "session.updated"


@pytest.mark.parametrize(
    "kind",
    [
        "input_audio_buffer.append",
        "output_audio_buffer.clear",
        "conversation.item.truncate",
    ],
)
async def test_audio_events_are_refused_by_name(open_session, kind):
    socket = await open_session()
    socket.send({"type": kind, "event_id": "a"})
    error = (await socket.receive())["error"]
    assert kind in error["message"]
    assert "audio" in error["message"]
    assert error["event_id"] == "a"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "audio": "AAAA"},
        {"type": "input_image", "image_url": "data:"},
        {"type": "output_text", "text": "hi"},
        {"type": "input_text"},
        {"type": "input_text", "text": "hi", "transcript": "hi"},
    ],
)
async def test_parts_that_are_no_text_are_refused_by_name(open_session, part):
    socket = await open_session()
    item = {"type": "message", "role": "user", "content": [part]}
    socket.send({"type": "conversation.item.create", "item": item})
    error = (await socket.receive())["error"]
    assert error["param"].startswith("item.content[0].")


async def test_items_are_inserted_retrieved_and_deleted(open_session, engine):
    socket = await open_session()
    history = [("b", None), ("a", "root"), ("c", "b")]
    for name, after in history:
        event = say(name, previous_item_id=after)
        event["item"]["id"] = name
        socket.send(event)
        added = await socket.receive()
        assert added["previous_item_id"] == {"b": None, "a": None, "c": "b"}[name]
        await socket.receive()
    socket.send({"type": "conversation.item.retrieve", "item_id": "a"})
    assert (await socket.receive())["item"]["content"][0]["text"] == "a"
    socket.send({"type": "conversation.item.delete", "item_id": "b"})
    assert (await socket.receive())["item_id"] == "b"
    socket.send(CREATE)
    await socket.until(DONE)
    assert [turn.content for turn in engine.requests[0][0]] == ["a", "c"]


async def test_items_that_are_not_there_are_errors(open_session):
    socket = await open_session()
    for kind in ("retrieve", "delete"):
        socket.send({"type": f"conversation.item.{kind}", "item_id": "x"})
        error = (await socket.receive())["error"]
        assert error["code"] == f"item_{kind}_invalid_item_id"
    socket.send(say("hi", previous_item_id="x"))
    assert (await socket.receive())["error"]["param"] == "previous_item_id"


async def test_an_item_id_is_given_once(open_session):
    socket = await open_session()
    event = say("hi")
    event["item"]["id"] = "mine"
    socket.send(event)
    await socket.until("conversation.item.done")
    socket.send(event)
    assert (await socket.receive())["error"]["param"] == "item.id"


@pytest.mark.slow
async def test_a_conversation_is_bounded(open_session):
    socket = await open_session()
    for _ in range(MAX_ITEMS):
        socket.send(say(""))
    socket.send(say("too many"))
    events = await socket.until("error")
    assert len(events) == 2 * MAX_ITEMS + 1
    assert events[-1]["error"]["code"] == "conversation_full"


async def test_one_response_at_a_time_writes_to_the_conversation(
    open_session, engine, deltas
):
    go = asyncio.Event()
    engine.scripts.append([Delta("Hel"), go, *deltas("lo")])
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    await socket.until("response.output_text.delta")
    socket.send(CREATE | {"event_id": "second"})
    error = (await socket.receive())["error"]
    assert error["code"] == "conversation_already_has_active_response"
    assert error["event_id"] == "second"
    go.set()
    done = (await socket.until(DONE))[-1]
    assert done["response"]["status"] == "completed"
    socket.send(CREATE)
    assert (await socket.until(DONE))[-1]["response"]["status"] == "completed"


async def test_a_response_beside_the_conversation_leaves_it_alone(
    open_session, engine, deltas
):
    go = asyncio.Event()
    engine.scripts.append([Delta("Hel"), go, *deltas("lo")])
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    await socket.until("response.output_text.delta")
    given = say("classify")["item"]
    socket.send(ask(conversation="none", input=[given], metadata={"topic": "x"}))
    events = await socket.until(DONE)
    kinds = [event["type"] for event in events]
    assert not [kind for kind in kinds if kind.startswith("conversation.")]
    response = events[-1]["response"]
    assert (response["conversation_id"], response["metadata"]) == (None, {"topic": "x"})
    assert engine.requests[1][0] == (ChatMessage("user", "classify"),)
    go.set()
    await socket.until(DONE)
    output = response["output"][0]["id"]
    socket.send({"type": "conversation.item.retrieve", "item_id": output})
    assert (await socket.receive())["type"] == "error"


async def test_input_may_refer_to_items_of_the_conversation(open_session, engine):
    socket = await open_session()
    socket.send(say("first"))
    socket.send(say("second"))
    name = (await socket.receive())["item"]["id"]
    reference = {"type": "item_reference", "id": name}
    socket.send(ask(conversation="none", input=[reference, say("new")["item"]]))
    await socket.until(DONE)
    assert [turn.content for turn in engine.requests[0][0]] == ["first", "new"]
    reference["id"] = "gone"
    socket.send(ask(input=[reference]))
    assert (await socket.receive())["error"]["param"] == "response.input[0].id"


async def test_nothing_to_respond_to_is_an_error(open_session):
    socket = await open_session()
    socket.send(CREATE)
    assert (await socket.receive())["error"]["param"] == "response.input"


async def test_a_cancelled_response_keeps_its_text(open_session, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    await socket.until("response.output_text.delta")
    socket.send({"type": "response.cancel"})
    events = await socket.until(DONE)
    response = events[-1]["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {
        "type": "cancelled",
        "reason": "client_cancelled",
    }
    item = response["output"][0]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hel")
    await engine.until_open(0)
    socket.send({"type": "conversation.item.retrieve", "item_id": item["id"]})
    assert (await socket.receive())["item"] == item


async def test_a_response_cancelled_before_its_first_token_has_no_item(
    open_session, engine
):
    engine.script = [asyncio.Event()]
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    socket.send({"type": "response.cancel"})
    events = await socket.until(DONE)
    assert events[-1]["response"]["status"] == "cancelled"
    assert events[-1]["response"]["output"] == []
    assert [event["type"] for event in events[2:]] == ["response.created", DONE]


async def test_one_of_several_responses_is_cancelled_by_its_id(open_session, engine):
    engine.script = [Delta("x"), asyncio.Event()]
    socket = await open_session()
    for topic in ("a", "b"):
        given = [say("hi")["item"]]
        socket.send(ask(conversation="none", input=given, metadata={"topic": topic}))
    created = [(await socket.until("response.created"))[-1] for _ in "ab"]
    name = created[1]["response"]["id"]
    socket.send({"type": "response.cancel", "response_id": name})
    done = (await socket.until(DONE))[-1]["response"]
    assert (done["id"], done["status"]) == (name, "cancelled")
    assert engine.open == 1


async def test_a_cancel_of_nothing_is_an_error_that_changes_nothing(open_session):
    socket = await open_session()
    socket.send({"type": "response.cancel", "event_id": "c"})
    error = (await socket.receive())["error"]
    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "c")


async def test_an_answer_cut_by_length_is_incomplete(open_session, engine, deltas):
    engine.script = deltas("Hel", reason=FinishReason.LENGTH)
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(ask(max_output_tokens=1))
    response = (await socket.until(DONE))[-1]["response"]
    assert response["status"] == "incomplete"
    assert response["status_details"]["reason"] == "max_output_tokens"
    assert response["max_output_tokens"] == 1


async def test_a_response_that_fails_says_so_in_its_end(open_session, engine):
    engine.script = [Delta("Hel"), Overloaded("full", retry_after_s=1)]
    socket = await open_session()
    socket.send(say("hi"))
    socket.send(CREATE)
    response = (await socket.until(DONE))[-1]["response"]
    assert response["status"] == "failed"
    assert response["status_details"]["error"]["code"] == "rate_limit_exceeded"
    assert response["output"][0]["status"] == "incomplete"
    engine.script = [Delta("ok"), Delta("", (), (), FinishReason.STOP, Usage(1, 1))]
    socket.send(CREATE)
    assert (await socket.until(DONE))[-1]["response"]["status"] == "completed"


async def test_a_response_that_is_not_admitted_is_an_error(open_session, engine):
    engine.max_open = 0
    socket = await open_session()
    socket.send(say("hi"))
    await socket.until("conversation.item.done")
    socket.send(CREATE | {"event_id": "r"})
    error = (await socket.receive())["error"]
    assert (error["code"], error["event_id"]) == ("rate_limit_exceeded", "r")
    engine.max_open = 1
    socket.send(CREATE)
    assert (await socket.until(DONE))[-1]["response"]["status"] == "completed"


async def test_too_many_responses_are_refused(open_session, make_app, engine):
    engine.script = [asyncio.Event()]
    socket = await open_session(app=make_app(max_lanes=2))
    for _ in range(3):
        socket.send(ask(conversation="none", input=[say("hi")["item"]]))
    events = await socket.until("error")
    assert events[-1]["error"]["code"] == "too_many_responses"


@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"conversation": "other"}, "response.conversation"),
        ({"output_modalities": ["audio"]}, "response.output_modalities"),
        ({"metadata": {"k": "v" * 513}}, "response.metadata"),
        ({"metadata": {str(k): "" for k in range(17)}}, "response.metadata"),
        ({"input": [{"type": "function_call"}]}, "response.input[0].type"),
        ({"temprature": 1}, "response.temprature"),
        ({"priority": 101}, "response.priority"),
    ],
)
async def test_what_a_response_cannot_be_is_refused_by_name(
    open_session, response, param
):
    socket = await open_session()
    socket.send(CREATE | {"response": response})
    event = await socket.receive()
    assert event["error"]["param"] == param


async def test_malformed_frames_are_errors_and_the_session_lives(open_session):
    socket = await open_session()
    frames = ["", "{", "[]", "5", "{}", b"\x00", '{"type": 5}', '{"type": "x"}']
    frames += ["[" * 10_000, '{"type": "response.create", "response": []}']
    for frame in frames:
        socket.send(frame)
        assert (await socket.receive())["type"] == "error"
    socket.send(say("hi"))
    assert (await socket.receive())["type"] == "conversation.item.added"


async def test_random_frames_are_answered_in_the_protocols_shape(open_session):
    socket = await open_session()
    draw = random.Random(5)
    kinds = ["response.create", "session.update", "conversation.item.create", 7, None]
    values = [None, 1, "x", [], {}, [[]], {"type": "message"}, True, 1e9]
    keys = ["type", "session", "item", "response", "event_id", "item_id", "x"]
    for _ in range(300):
        frame = {draw.choice(keys): draw.choice(values) for _ in range(3)}
        frame["type"] = draw.choice(kinds)
        socket.send(frame)
        event = await socket.receive()
        assert event["type"] == "error", frame
        assert set(event["error"]) == {"type", "code", "message", "param", "event_id"}


async def test_an_error_flood_is_answered_whole(open_session):
    socket = await open_session()
    for number in range(500):
        socket.send({"type": "x", "event_id": str(number)})
    names = [(await socket.receive())["error"]["event_id"] for _ in range(500)]
    assert names == [str(number) for number in range(500)]


async def test_a_message_over_the_limit_closes_with_1009(open_session, make_app):
    socket = await open_session(app=make_app(max_frame_bytes=100))
    socket.send("x" * 101)
    assert (await socket.raw())["code"] == 1009


def test_a_messages_length_is_that_of_its_bytes():
    assert not is_longer("é" * 50, 100)
    assert is_longer("é" * 51, 100)
    assert is_longer(b"x" * 101, 100)


async def test_leaving_in_mid_answer_lets_go_of_it(connect, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    socket = await connect("/v1/realtime")
    socket.send(say("hi"))
    socket.send(CREATE)
    await socket.until("response.output_text.delta")
    socket.disconnect()
    await socket.task
    assert engine.open == 0


async def test_a_slow_reader_stops_the_pulling(open_session, make_app, engine, deltas):
    engine.script = deltas(*["x"] * 1000)
    socket = await open_session(app=make_app(outbox_entries=4))
    socket.send(say("hi"))
    await socket.until("conversation.item.done")
    socket.stall()
    socket.send(CREATE)
    await engine.until_open(1)
    for _ in range(100):
        await asyncio.sleep(0)
    # What waits: the outbox, the batch being sent, and the one being put.
    assert engine.pulled <= 12
    socket.resume()
    done = (await socket.until(DONE))[-1]["response"]
    assert done["output"][0]["content"][0]["text"] == "x" * 1000


async def test_a_reader_that_reads_nothing_is_given_up(make_app, connect, engine):
    engine.script = [Delta("x")] * 100_000
    app = make_app(outbox_entries=2, send_deadline_s=0.05)
    socket = await connect("/v1/realtime", app=app)
    await socket.receive()
    socket.send(say("hi"))
    await socket.until("conversation.item.done")
    socket.stall()
    socket.send(CREATE)
    await engine.until_open(1)
    await engine.until_open(0)
    socket.resume()
    assert "nothing was read" in (await closing(socket))["reason"]


async def closing(socket):
    while (message := await socket.raw())["type"] != "websocket.close":
        pass
    return message


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        (b"model=gpt-realtime", {}),
        (b"call_id=rtc_1", {}),
        (b"intent=transcription", {}),
        (b"", {"openai-beta": "realtime=v1"}),
    ],
)
async def test_other_sessions_are_refused_at_the_handshake(app, query, headers):
    sent = []
    scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "query_string": query,
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "extensions": {"websocket.http.response": {}},
    }

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] in (400, 404)
    assert "error" in msgspec.json.decode(sent[1]["body"])


async def test_a_subprotocol_that_browsers_offer_is_taken(app):
    sent = []
    scope = {
        "type": "websocket",
        "path": "/v1/realtime",
        "query_string": b"model=scripted",
        "headers": [],
        "subprotocols": ["realtime", "openai-insecure-api-key.secret"],
    }
    inbox = [{"type": "websocket.connect"}, {"type": "websocket.disconnect"}]

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0] == {"type": "websocket.accept", "subprotocol": "realtime"}
