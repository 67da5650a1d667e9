"""Seeing and changing the batching strategy at run time."""

import asyncio

import pytest

from legato.engine import Engine, FakeModel
from legato.protocol.errors import InvalidRequest
from legato.serve import ServeSettings, create_app
from legato.serve.admin import read_batching

pytestmark = pytest.mark.anyio

PATH = "/admin/batching"
TEXT = "/v1/completions"
KEY = {"authorization": "Bearer right"}
DYNAMIC = {"type": "dynamic", "max_batch": 16, "max_delay_s": 0.02}


def app_of(engine):
    return create_app(engine, ServeSettings(api_keys=("right",)))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_server_without_keys_is_shut_and_says_how_to_open_it(call, method):
    answer = await call(method, PATH, DYNAMIC if method == "POST" else None, KEY)
    assert (answer.status, answer.error["code"]) == (403, "admin_disabled")
    assert "--api-key" in answer.error["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_it_asks_for_the_key(call, make_app, method):
    app = make_app(api_keys=("right",))
    assert (await call(method, PATH, DYNAMIC, app=app)).status == 401
    wrong = {"authorization": "Bearer wrong"}
    assert (await call(method, PATH, DYNAMIC, wrong, app=app)).status == 401


@pytest.mark.parametrize(
    "body",
    [
        DYNAMIC,
        {"type": "dynamic", "preferred": [4, 8], "adaptive": False},
        {"type": "static", "size": 4, "max_wait_s": 0},
    ],
)
async def test_a_strategy_is_put_in_force_and_shown_with_its_reason(call, body):
    async with Engine(FakeModel(step_s=0.0005)) as engine:
        app = app_of(engine)
        before = await call("GET", PATH, None, KEY, app=app)
        assert before.json["strategy"] in ("", "continuous")
        changed = await call("POST", PATH, body, KEY, app=app)
        assert changed.status == 200
        assert body.items() <= changed.json["batching"].items()
        shown = await call("GET", PATH, None, KEY, app=app)
        assert shown.json == {"strategy": body["type"], "why": "as configured"}
        assert shown.headers["cache-control"] == "no-store"


async def test_auto_says_what_it_chose_and_why(call):
    async with Engine(FakeModel(step_s=0.0005)) as engine:
        app = app_of(engine)
        assert (await call("POST", PATH, {"type": "auto"}, KEY, app=app)).status == 200
        answer = await call("GET", PATH, None, KEY, app=app)
        assert answer.json["strategy"] == "continuous"
        assert "token by token" in answer.json["why"]


@pytest.mark.slow
async def test_a_change_in_mid_stream_does_not_touch_running_answers(call, begin):
    body = {
        "prompt": "Once upon a time",
        "max_tokens": 600,
        "ignore_eos": True,
        "temperature": 0,
        "n": 2,
    }
    async with Engine(FakeModel(step_s=0.0002)) as engine:
        app = app_of(engine)
        alone = (await call("POST", TEXT, body, KEY, app=app)).json["choices"]
        running = begin("POST", TEXT, {**body, "stream": True}, KEY, app=app)
        await running.wait_for(b"data:")
        # Nobody reads, so the sequences are paused long before their ends.
        running.stall()
        for change in ({"type": "static", "size": 2}, DYNAMIC):
            assert (await call("POST", PATH, change, KEY, app=app)).status == 200
        running.resume()
        *chunks, done = (await running.done()).events
        assert done == "[DONE]"
        texts = ["", ""]
        for chunk in chunks:
            (choice,) = chunk["choices"]
            texts[choice["index"]] += choice["text"]
        assert texts == [choice["text"] for choice in alone]
        await engine.wait_idle()
        assert engine.stats().core.strategy == "dynamic"
        later = (await call("POST", TEXT, body, KEY, app=app)).json["choices"]
        assert later == alone


REFUSED = [
    ({}, "type", "continuous, dynamic, static, auto"),
    ({"type": "magic"}, "type", "'magic'"),
    ({"type": ["static"]}, "type", "must be one of"),
    ({"type": "dynamic", "max_batch": 0}, "max_batch", "[1, 65536], got 0"),
    ({"type": "dynamic", "max_batch": "8"}, "max_batch", "int"),
    ({"type": "dynamic", "max_delay_s": -1}, "max_delay_s", "[0, 3600] seconds"),
    ({"type": "dynamic", "preferred": [9]}, "preferred", "[1, 8], got 9"),
    ({"type": "dynamic", "preferred": [1, "x"]}, "preferred[1]", "int"),
    ({"type": "static", "size": 65_537}, "size", "[1, 65536]"),
    ({"type": "static", "max_batch": 8}, "max_batch", "unknown option 'max_batch'"),
    ({"type": "dynamic", "max_bacth": 8}, "max_bacth", "'max_batch'"),
    ({"type": "continuous", "max_batch": 8}, "max_batch", "unknown option"),
]


@pytest.mark.parametrize(("body", "field", "text"), REFUSED)
async def test_what_cannot_be_is_refused_by_field_and_range(
    call, engine, make_app, body, field, text
):
    app = make_app(api_keys=("right",))
    answer = await call("POST", PATH, body, KEY, app=app)
    assert answer.status == 400
    assert answer.error["param"] == field
    assert text in answer.error["message"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b"\xff", b"", b"[" * 10_000])
def test_anything_but_an_object_is_refused(body):
    with pytest.raises(InvalidRequest):
        read_batching(body)


async def test_an_engine_that_is_not_open_is_503(call):
    answer = await call("GET", PATH, None, KEY, app=app_of(Engine(FakeModel())))
    assert (answer.status, answer.error["code"]) == (503, "engine_closed")


async def test_a_busy_engine_changes_too_and_does_not_hold_the_answer_up(call, begin):
    async with Engine(FakeModel(step_s=0.001)) as engine:
        app = app_of(engine)
        body = {"prompt": "a", "max_tokens": 2000, "ignore_eos": True, "stream": True}
        running = begin("POST", TEXT, body, KEY, app=app)
        await running.wait_for(b"data:")
        answer = await call("POST", PATH, {"type": "static"}, KEY, app=app)
        assert answer.json["batching"] == {
            "type": "static",
            "size": 8,
            "max_wait_s": 1.0,
        }
        while engine.stats().core.strategy != "static":  # noqa: ASYNC110
            await asyncio.sleep(0)
        running.disconnect()
        await running.done()
        await engine.wait_idle()
