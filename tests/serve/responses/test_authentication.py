"""A key in the first frame."""

import pytest

pytestmark = pytest.mark.anyio
KEY = {"type": "session.authenticate", "api_key": "right"}
CREATE = {"type": "response.create", "input": "hi"}


async def refused(socket, code):
    event = await socket.receive()
    assert (event["type"], event["status"]) == ("error", 401)
    assert event["error"]["code"] == code
    message = await socket.raw()
    assert (message["type"], message["code"]) == ("websocket.close", 1008)
    return str(event) + message["reason"]


async def test_the_first_frame_may_bring_the_key(connect, engine, make_app):
    socket = await connect(app=make_app(api_keys=("other", "right")))
    socket.send(KEY)
    assert await socket.receive() == {"type": "session.authenticated", "legato": 1}
    socket.send(CREATE)
    await socket.until("response.completed")
    ((_, _, tenant),) = engine.requests
    assert tenant.startswith("key-")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({**KEY, "api_key": "wrong"}, "invalid_api_key"),
        (CREATE, "missing_api_key"),
        ({**KEY, "api_key": "x" * 20_000}, "missing_api_key"),
    ],
)
async def test_any_other_first_frame_ends_the_connection(
    connect, engine, make_app, frame, code
):
    socket = await connect(app=make_app(api_keys=("right",)))
    socket.send(frame)
    said = await refused(socket, code)
    assert "wrong" not in said
    assert engine.requests == []


@pytest.mark.parametrize("frame", ["{", "[]", {"type": "x"}, {**KEY, "api_key": 5}])
async def test_a_broken_first_frame_ends_it_too(connect, make_app, frame):
    socket = await connect(app=make_app(api_keys=("right",)))
    socket.send(frame)
    assert (await socket.receive())["type"] == "error"
    assert (await socket.raw())["code"] == 1008


async def test_who_sends_nothing_is_not_waited_for(connect, make_app):
    app = make_app(api_keys=("right",), handshake_deadline_s=0.01)
    await refused(await connect(app=app), "authentication_timeout")


async def test_who_leaves_before_the_key_is_no_fault_of_ours(connect, make_app, caplog):
    socket = await connect(app=make_app(api_keys=("right",)))
    socket.disconnect()
    await socket.task
    assert caplog.records == []


async def test_a_key_where_none_is_needed_is_answered_all_the_same(connect, make_app):
    socket = await connect()
    socket.send(KEY)
    assert (await socket.receive())["type"] == "session.authenticated"
    app = make_app(api_keys=("right", "other"))
    socket = await connect(app=app, headers={"authorization": "Bearer right"})
    socket.send(KEY)
    assert (await socket.receive())["type"] == "session.authenticated"
    socket.send({**KEY, "api_key": "other"})
    assert (await socket.receive())["error"]["param"] == "api_key"
    socket.send({**KEY, "api_key": "wrong"})
    assert (await socket.receive())["error"]["code"] == "invalid_api_key"


async def test_a_keys_requests_are_bounded_together(connect, engine, make_app):
    import asyncio

    engine.script = [asyncio.Event()]
    app = make_app(api_keys=("right", "other"), max_requests_per_key=1)
    sockets = [
        await connect(app=app, headers={"authorization": f"Bearer {key}"})
        for key in ("right", "right", "other")
    ]
    sockets[0].send(CREATE)
    await engine.until_open(1)
    sockets[1].send(CREATE)
    assert (await sockets[1].receive())["status"] == 429
    sockets[2].send(CREATE)
    await engine.until_open(2)
