"""Responses that outlive their socket, and those who come back for them."""

import asyncio

import pytest

from legato.protocol.requests import Delta, FinishReason, Usage

pytestmark = pytest.mark.anyio
CREATE = {"type": "response.create", "input": "hi", "resumable": True}
TERMINAL = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)
END = Delta("", (), (), FinishReason.STOP, Usage(3, 3))


def words(hold):
    """Three words, of which the last two come after an event."""
    return [Delta("one ", (1,)), hold, Delta("two ", (2,)), Delta("three", (3,)), END]


async def drop(socket):
    socket.disconnect()
    await socket.task


async def begin(connect, engine, **fields):
    """A response whose socket drops after the first word."""
    socket = await connect()
    socket.send({**CREATE, **fields})
    events = await socket.until("response.output_text.delta")
    await drop(socket)
    return events


def resume(socket, events, **fields):
    name = events[0]["response"]["id"]
    after = events[-1]["sequence_number"]
    frame = {"type": "response.resume", "response_id": name, "starting_after": after}
    socket.send({**frame, **fields})


async def test_who_comes_back_gets_what_was_missed_and_what_is_still_to_come(
    connect, engine
):
    hold = asyncio.Event()
    engine.script = words(hold)
    seen = await begin(connect, engine, stream_id="a")
    assert engine.open == 1
    socket = await connect()
    resume(socket, seen)
    resumed = await socket.receive()
    assert resumed == {
        "type": "response.resumed",
        "legato": 1,
        "response_id": seen[0]["response"]["id"],
        "starting_after": seen[-1]["sequence_number"],
        "status": "in_progress",
    }
    hold.set()
    seen += await socket.until(*TERMINAL)
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert {event["stream_id"] for event in seen} == {"a"}
    assert "".join(e["delta"] for e in seen if "delta" in e) == "one two three"
    assert seen[-1]["response"]["output"][0]["content"][0]["text"] == "one two three"


async def test_a_response_that_ended_meanwhile_is_replayed_as_it_was(connect, engine):
    hold = asyncio.Event()
    engine.script = words(hold)
    seen = await begin(connect, engine)
    hold.set()
    await engine.until_open(0)
    replays = []
    for _ in range(2):
        socket = await connect()
        resume(socket, seen)
        replays.append((await socket.until(*TERMINAL))[1:])
    assert replays[0] == replays[1]
    numbers = [event["sequence_number"] for event in seen + replays[0]]
    assert numbers == list(range(len(numbers)))


async def test_a_stop_and_a_cancel_after_a_resume_work(connect, engine):
    for kind, end in (
        ("response.stop", "response.incomplete"),
        ("response.cancel", "response.cancelled"),
    ):
        engine.script = words(asyncio.Event())
        seen = await begin(connect, engine)
        socket = await connect()
        resume(socket, seen)
        await socket.receive()
        socket.send({"type": kind, "response_id": seen[0]["response"]["id"]})
        last = (await socket.until(*TERMINAL))[-1]
        assert last["type"] == end
        assert last["response"]["output"][0]["content"][0]["text"] == "one "
        await engine.until_open(0)


async def test_a_response_can_be_cancelled_from_a_socket_that_does_not_follow_it(
    connect, engine
):
    engine.script = words(asyncio.Event())
    seen = await begin(connect, engine)
    socket = await connect()
    name = seen[0]["response"]["id"]
    socket.send({"type": "response.cancel", "response_id": name})
    await engine.until_open(0)


async def test_a_later_socket_takes_over(connect, engine):
    hold = asyncio.Event()
    engine.script = words(hold)
    first = await connect()
    first.send(CREATE)
    seen = await first.until("response.output_text.delta")
    second = await connect()
    resume(second, seen)
    await second.receive()
    hold.set()
    await second.until(*TERMINAL)
    first.send({"type": "response.resume", "response_id": "resp_no"})
    assert (await first.receive())["error"]["code"] == "response_not_found"


async def test_without_asking_for_it_a_response_ends_with_its_socket(connect, engine):
    engine.script = words(asyncio.Event())
    seen = await begin(connect, engine, resumable=False)
    assert engine.open == 0
    socket = await connect()
    resume(socket, seen)
    event = await socket.receive()
    assert (event["status"], event["error"]["code"]) == (404, "response_not_found")
    assert event["response_id"] == seen[0]["response"]["id"]


async def test_nobody_is_waited_for_longer_than_the_grace_period(
    connect, engine, make_app
):
    engine.script = words(asyncio.Event())
    app = make_app(resume_grace_s=0.01)
    socket = await connect(app=app)
    socket.send(CREATE)
    seen = await socket.until("response.output_text.delta")
    await drop(socket)
    await engine.until_open(0)
    await app.gate.emptied()
    socket = await connect(app=app)
    resume(socket, seen)
    # The store has it: its events up to the end that the server put to it.
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.cancelled"


async def test_what_nobody_may_store_is_gone_after_the_grace_period(
    connect, engine, make_app
):
    app = make_app()
    socket = await connect(app=app)
    socket.send({**CREATE, "store": False})
    seen = await socket.until(*TERMINAL)
    await drop(socket)
    run = app._registry.find(seen[0]["response"]["id"], "")
    run._on_grace_over(run)
    socket = await connect(app=app)
    resume(socket, seen)
    assert (await socket.receive())["status"] == 404


async def test_credit_left_over_and_more_of_it_go_on_after_a_resume(connect, engine):
    hold = asyncio.Event()
    hold.set()
    engine.script = words(hold)
    socket = await connect()
    socket.send({**CREATE, "credit": 1})
    seen = await socket.until("response.paused")
    await drop(socket)
    socket = await connect()
    resume(socket, seen[:-1], credit=1)
    assert (await socket.receive())["type"] == "response.resumed"
    events = await socket.until("response.paused")
    assert [e["delta"] for e in events if "delta" in e] == ["two "]
    socket.send(
        {
            "type": "response.credit",
            "response_id": seen[0]["response"]["id"],
            "tokens": 9,
        }
    )
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"


async def test_a_slow_follower_is_waited_for_and_one_who_left_is_not(connect, engine):
    engine.script = [*(Delta("x", (1,)) for _ in range(1000)), END]
    socket = await connect()
    socket.stall()
    socket.send(CREATE)
    await engine.until_open(1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert engine.pulled < 300
    socket.resume()
    await drop(socket)
    await engine.until_open(0)
    assert engine.pulled == 1001


async def test_events_that_are_kept_no_more_are_not_made_up(connect, engine, make_app):
    engine.script = [*(Delta("x" * 50, (1,)) for _ in range(100)), END]
    app = make_app(replay_bytes=4000)
    socket = await connect(app=app)
    socket.send(CREATE)
    seen = await socket.until(*TERMINAL)
    resume(socket, seen[:3])
    event = await socket.receive()
    assert (event["status"], event["error"]["code"]) == (410, "replay_unavailable")
    resume(socket, seen[:-1])
    assert (await socket.until(*TERMINAL))[-1] == seen[-1]


async def test_a_refusal_before_it_begins_is_an_error_and_leaves_nothing(
    connect, engine, app
):
    socket = await connect()
    socket.send({**CREATE, "previous_response_id": "resp_no", "stream_id": "a"})
    event = await socket.receive()
    assert event["error"]["code"] == "previous_response_not_found"
    assert event["stream_id"] == "a"
    socket.send({**CREATE, "stream_id": "a"})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"
    assert len(app._registry) == 1


async def test_resumes_without_end_are_refused(connect, make_app):
    socket = await connect(app=make_app(max_in_flight=3))
    socket.stall()
    for _ in range(60):
        socket.send({"type": "response.resume", "response_id": "resp_no"})
    for _ in range(20):
        await asyncio.sleep(0)
    socket.resume()
    statuses = {(await socket.receive())["status"] for _ in range(60)}
    assert statuses == {404, 429}


async def test_lanes_stay_in_order_with_resumable_responses(connect, engine, deltas):
    hold = asyncio.Event()
    engine.scripts.extend([words(hold), deltas("second")])
    socket = await connect()
    socket.send(CREATE)
    socket.send({**CREATE, "resumable": False})
    await socket.until("response.output_text.delta")
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(engine.requests) == 1
    hold.set()
    await socket.until("response.completed")
    assert (await socket.until("response.completed"))[0]["sequence_number"] == 0


async def test_too_many_are_refused_and_ended_ones_make_room(connect, engine, make_app):
    engine.scripts.append(words(asyncio.Event()))
    app = make_app(max_runs=2)
    socket = await connect(app=app)
    for lane in ("a", "b", "c"):
        socket.send({**CREATE, "stream_id": lane})
        await engine.until_open(1)
        await socket.until(*TERMINAL) if lane != "a" else None
    engine.script = words(asyncio.Event())
    socket.send({**CREATE, "stream_id": "d"})
    await engine.until_open(2)
    socket.send({**CREATE, "stream_id": "e"})
    events = await socket.until("error")
    assert events[-1]["status"] == 429


async def test_closing_the_application_ends_what_nobody_follows(connect, engine, app):
    engine.script = words(asyncio.Event())
    await begin(connect, engine)
    assert engine.open == 1
    await app.close()
    assert engine.open == 0
    assert len(app._registry) == 0


async def test_a_restart_loses_nothing_where_the_state_store_survives(
    connect, engine, make_app, tmp_path
):
    state = str(tmp_path / "state")
    hold = asyncio.Event()
    engine.script = words(hold)
    app = make_app(state_store=state)
    socket = await connect(app=app)
    socket.send(CREATE)
    seen = await socket.until("response.output_text.delta")
    await drop(socket)
    hold.set()
    await engine.until_open(0)
    await app.gate.emptied()
    await app.close()
    later = make_app(state_store=state)
    socket = await connect(app=later)
    resume(socket, seen)
    assert (await socket.receive())["status"] == "completed"
    seen += await socket.until(*TERMINAL)
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert "".join(e["delta"] for e in seen if "delta" in e) == "one two three"
    name = seen[0]["response"]["id"]
    socket.send({**CREATE, "previous_response_id": name, "resumable": False})
    assert (await socket.until(*TERMINAL))[-1]["type"] == "response.completed"
    await later.close()
