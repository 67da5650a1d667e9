"""Responses over HTTP."""

import asyncio

import msgspec
import pytest

from legato.protocol.errors import ContextOverflow, EngineFailed, Overloaded
from legato.protocol.requests import Delta, FinishReason, Usage

pytestmark = pytest.mark.anyio
URL = "/v1/responses"
BODY = {"input": "hi", "model": "scripted"}
END = Delta("", (), (), FinishReason.STOP, Usage(3, 3))


def events_of(answer):
    """Server-sent events, each name held against its data."""
    events = []
    for block in answer.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


async def test_a_response_is_made_whole_and_shown_again(call):
    answer = await call("POST", URL, BODY)
    response = answer.json
    assert answer.status == 200
    assert (response["object"], response["status"]) == ("response", "completed")
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert (response["store"], response["background"]) == (True, False)
    again = await call("GET", f"{URL}/{response['id']}")
    assert again.json == response


async def test_a_response_is_streamed_with_named_events(call):
    answer = await call("POST", URL, {**BODY, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer)
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [(Overloaded("full", retry_after_s=2), 429), (ContextOverflow(9, 5, "it"), 400)],
)
async def test_a_refusal_has_its_own_status(call, engine, stream, error, status):
    engine.script = [error]
    answer = await call("POST", URL, {**BODY, "stream": stream})
    assert answer.status == status
    assert answer.error["message"]
    engine.refusal = error
    assert (await call("POST", URL, {**BODY, "stream": stream})).status == status


async def test_a_failure_in_mid_stream_is_an_event_and_the_end(call, engine):
    engine.script = [Delta("He", (1,)), EngineFailed("secret")]
    events = events_of(await call("POST", URL, {**BODY, "stream": True}))
    assert [e["type"] for e in events if e["type"] in ("error", "response.failed")] == [
        "error",
        "response.failed",
    ]
    assert "secret" not in str(events)
    assert (await call("POST", URL, BODY)).status == 500


async def test_a_client_that_leaves_ends_its_response(begin, engine):
    engine.script = [Delta("x", (1,)), asyncio.Event()]
    for stream in (False, True):
        request = begin("POST", URL, {**BODY, "stream": stream})
        await engine.until_open(1)
        request.disconnect()
        await request.task
        assert engine.open == 0


async def test_an_unstored_response_is_not_shown(call):
    name = (await call("POST", URL, {**BODY, "store": False})).json["id"]
    answer = await call("GET", f"{URL}/{name}")
    assert (answer.status, answer.error["code"]) == (404, "response_not_found")


async def test_a_response_in_the_background_outlives_its_request(call, engine):
    hold = asyncio.Event()
    engine.script = [Delta("one ", (1,)), hold, Delta("two", (2,)), END]
    response = (await call("POST", URL, {**BODY, "background": True})).json
    assert (response["status"], response["background"]) == ("in_progress", True)
    url = f"{URL}/{response['id']}"
    assert (await call("GET", url)).json["status"] == "in_progress"
    hold.set()
    await engine.until_open(0)
    shown = (await call("GET", url)).json
    assert shown["status"] == "completed"
    assert shown["output"][0]["content"][0]["text"] == "one two"


async def test_its_stream_can_be_left_and_taken_up_again(begin, call, engine):
    hold = asyncio.Event()
    engine.script = [Delta("one ", (1,)), hold, Delta("two", (2,)), END]
    first = begin("POST", URL, {**BODY, "background": True, "stream": True})
    await first.wait_for(b"one ")
    first.disconnect()
    await first.task
    assert engine.open == 1
    seen = events_of(first)
    url = f"{URL}/{seen[0]['response']['id']}"
    after = seen[-1]["sequence_number"]
    second = begin("GET", f"{url}?stream=true&starting_after={after}")
    hold.set()
    seen += events_of(await second.done())
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert "".join(e["delta"] for e in seen if "delta" in e) == "one two"
    whole = events_of(await call("GET", f"{url}?stream=true"))
    assert whole == seen
    late = await call("GET", f"{url}?stream=true&starting_after=9999")
    assert late.status == 400


async def test_a_refused_response_in_the_background_has_its_status(call, engine):
    engine.refusal = Overloaded("full", retry_after_s=2)
    assert (await call("POST", URL, {**BODY, "background": True})).status == 429
    body = {**BODY, "background": True, "previous_response_id": "resp_no"}
    assert (await call("POST", URL, body)).status == 400


async def test_a_response_in_the_background_is_cancelled_idempotently(call, engine):
    engine.script = [Delta("x", (1,)), asyncio.Event()]
    name = (await call("POST", URL, {**BODY, "background": True})).json["id"]
    for _ in range(2):
        answer = await call("POST", f"{URL}/{name}/cancel")
        assert (answer.status, answer.json["status"]) == (200, "cancelled")
    assert engine.open == 0
    assert (await call("GET", f"{URL}/{name}")).json["status"] == "cancelled"


async def test_a_socket_stops_a_response_in_the_background(call, connect, engine):
    engine.script = [Delta("x", (1,)), asyncio.Event()]
    name = (await call("POST", URL, {**BODY, "background": True})).json["id"]
    socket = await connect()
    socket.send({"type": "response.stop", "response_id": name})
    await engine.until_open(0)
    assert (await call("GET", f"{URL}/{name}")).json["status"] == "incomplete"


async def test_a_deleted_response_is_gone_running_or_not(call, engine):
    name = (await call("POST", URL, BODY)).json["id"]
    answer = await call("DELETE", f"{URL}/{name}")
    assert answer.json == {"id": name, "object": "response", "deleted": True}
    assert (await call("DELETE", f"{URL}/{name}")).status == 404
    assert (await call("GET", f"{URL}/{name}")).status == 404
    engine.script = [Delta("x", (1,)), asyncio.Event()]
    name = (await call("POST", URL, {**BODY, "background": True})).json["id"]
    assert (await call("DELETE", f"{URL}/{name}")).status == 200
    assert engine.open == 0
    assert (await call("GET", f"{URL}/{name}")).status == 404


async def test_what_it_was_asked_with_is_listed(call):
    items = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    name = (await call("POST", URL, {"input": items})).json["id"]
    url = f"{URL}/{name}/input_items"
    page = (await call("GET", f"{url}?limit=2")).json
    assert [i["content"][0]["text"] for i in page["data"]] == ["c", "b"]
    assert page["has_more"] is True
    after = page["last_id"]
    rest = (await call("GET", f"{url}?limit=2&after={after}")).json
    assert [i["content"][0]["text"] for i in rest["data"]] == ["a"]
    page = (await call("GET", f"{url}?order=asc")).json
    assert [i["content"][0]["text"] for i in page["data"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("stream=maybe", "stream"),
        ("starting_after=3", "starting_after"),
        ("stream=true&starting_after=x", "starting_after"),
        ("stream=true&starting_after=-2", "starting_after"),
        ("stream=true&starting_after=" + "9" * 5000, "starting_after"),
        ("sream=true", "sream"),
        ("include_obfuscation=true", "include_obfuscation"),
        ("stream=true", "stream"),
    ],
)
async def test_a_bad_query_names_the_option(call, query, param):
    name = (await call("POST", URL, BODY)).json["id"]
    answer = await call("GET", f"{URL}/{name}?{query}")
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "order=up"])
async def test_a_bad_page_names_the_option(call, query):
    name = (await call("POST", URL, BODY)).json["id"]
    answer = await call("GET", f"{URL}/{name}/input_items?{query}")
    assert (answer.status, answer.error["param"]) == (400, query.partition("=")[0])


async def test_unknown_methods_are_told_the_known_ones(call):
    answer = await call("PUT", f"{URL}/resp_1")
    assert answer.status == 405
    assert answer.headers["allow"] == "DELETE, GET"


async def test_a_reader_of_a_deleted_response_is_told_of_its_end(begin, call, engine):
    engine.script = [Delta("x", (1,)), asyncio.Event()]
    name = (await call("POST", URL, {**BODY, "background": True})).json["id"]
    reading = begin("GET", f"{URL}/{name}?stream=true")
    await reading.wait_for(b"output_text.delta")
    assert (await call("DELETE", f"{URL}/{name}")).status == 200
    *_, last = (await reading.done()).body.decode().split("\n\n")[:-1]
    assert last.startswith(("event: error", "event: response.cancelled"))


async def test_a_drain_waits_for_a_response_that_nobody_follows(call, engine, app):
    hold = asyncio.Event()
    engine.script = [Delta("x", (1,)), hold, END]
    await call("POST", URL, {**BODY, "background": True})
    app.gate.close()
    empty = asyncio.ensure_future(app.gate.emptied())
    await asyncio.sleep(0)
    assert not empty.done()
    hold.set()
    await empty
