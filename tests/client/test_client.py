"""The client against a scripted server: answers, drops, refusals, and leaving early."""

import asyncio
import contextlib

import pytest

from legato.client import Client
from legato.client.link import delays, socket_url
from legato.protocol.errors import (
    ConnectionLost,
    DeadlineExceeded,
    EngineFailed,
    InvalidRequest,
    NotAdmitted,
    Overloaded,
)

pytestmark = pytest.mark.anyio


def error(status, code, message="no", param=None, **fields):
    said = {"code": code, "message": message, "param": param, "type": "x", **fields}
    return {"status": status, "error": said}


async def test_text_comes_piece_by_piece(scripted):
    async with scripted.client(api_key="sk-1", model="m") as client:
        answer = client.stream("hi", temperature=0)
        pieces = [piece async for piece in answer]
    assert "".join(pieces) == "Hello"
    assert answer.status == "completed"
    assert answer.usage == {"output_tokens": 2}
    assert scripted.handshakes[0]["authorization"] == "Bearer sk-1"
    (frame,) = scripted.frames
    assert (frame["input"], frame["model"], frame["temperature"]) == ("hi", "m", 0)
    assert frame["resumable"] is True


async def test_events_are_those_of_the_protocol(scripted):
    async with scripted.client() as client:
        events = [event async for event in client.stream("hi").events()]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert events[-1]["type"] == "response.completed"


async def test_answers_run_side_by_side_and_those_of_a_lane_in_order(scripted):
    async with scripted.client() as client, asyncio.TaskGroup() as group:
        texts = [
            group.create_task(client.stream("hi", lane=lane).text())
            for lane in (None, None, "a", "a", "a")
        ]
    assert {text.result() for text in texts} == {"Hello"}
    lanes = [frame["stream_id"] for frame in scripted.frames]
    assert lanes.count("a") == 3
    assert len(set(lanes)) == 3


@pytest.mark.parametrize("after", range(7))
async def test_a_cut_anywhere_changes_no_text(scripted, after):
    scripted.pieces = list("a longer answer")
    scripted.cut_after = [after, 3, after]
    async with scripted.client() as client:
        assert await client.stream("hi").text() == "a longer answer"
    assert len(scripted.handshakes) == 4
    for frame in scripted.frames_of("response.resume"):
        assert frame["response_id"] == "resp_0" or not after


async def test_a_cut_takes_up_every_lane(scripted):
    scripted.cut_after = [5, 5]
    async with scripted.client() as client, asyncio.TaskGroup() as group:
        texts = [group.create_task(client.stream("hi").text()) for _ in range(3)]
        queued = group.create_task(client.stream("hi", lane="a").text())
        behind = group.create_task(client.stream("hi", lane="a").text())
    assert {one.result() for one in (*texts, queued, behind)} == {"Hello"}


async def test_what_is_not_resumable_ends_with_its_connection(scripted):
    scripted.cut_after = [2]
    async with scripted.client() as client:
        with pytest.raises(ConnectionLost, match="mid-answer"):
            await client.stream("hi", resumable=False).text()
        assert await client.stream("hi", resumable=False).text() == "Hello"


async def test_what_the_server_forgot_is_lost(scripted):
    scripted.cut_after = [2]
    scripted.forget = True
    async with scripted.client() as client:
        with pytest.raises(InvalidRequest, match="gone") as caught:
            await client.stream("hi").text()
    assert caught.value.code == "response_not_found"


async def test_leaving_early_cancels_the_answer(scripted):
    async with scripted.client() as client:
        async for _ in client.stream("hi", credit=1):
            break
        await scripted.until(lambda: scripted.cancelled)
        async with client.stream("hi", credit=1) as answer:
            await anext(aiter(answer))
        await scripted.until(lambda: len(scripted.cancelled) == 2)


async def test_an_answer_never_read_sends_nothing(scripted):
    async with scripted.client() as client:
        client.stream("hi")
        aiter(client.stream("hi"))
        client.stream("hi").events()
        assert await client.stream("read").text() == "Hello"
    assert [frame["input"] for frame in scripted.frames] == ["read"]


async def test_a_cancelled_task_cancels_its_answer(scripted):
    scripted.go_on.clear()
    async with scripted.client() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.stream("hi").text()
        await scripted.until(lambda: scripted.cancelled)
        scripted.cancelled.clear()
        assert await client.stream("hi").text() == "Hello"


async def test_a_cancel_ends_the_text_without_an_error(scripted):
    scripted.go_on.clear()
    async with scripted.client() as client, client.stream("hi") as answer:
        events = answer.events()
        await anext(events)
        answer.cancel()
        answer.cancel()
        assert [event["type"] async for event in events] == ["response.cancelled"]
        assert answer.status == "cancelled"
    assert len(scripted.frames_of("response.cancel")) == 1


async def test_a_cancel_before_its_turn_sends_nothing(scripted):
    scripted.go_on.clear()
    async with scripted.client() as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.stream("1", lane="a").text())
        await scripted.until(lambda: scripted.events)
        second = client.stream("2", lane="a")
        text = group.create_task(second.text())
        await asyncio.sleep(0)
        second.cancel()
        assert await text == ""
        scripted.go_on.set()
        assert await first == "Hello"
    assert [frame["input"] for frame in scripted.frames] == ["1"]


async def test_a_cancel_while_the_line_is_cut_reaches_the_server(scripted):
    scripted.pieces = ["more"] * 100
    scripted.cut_after = [3]
    async with scripted.client() as client, client.stream("hi", credit=1) as answer:
        events = answer.events()
        assert (await anext(events))["sequence_number"] == 0
        scripted.status = 503
        # The grant makes the server go on, into the cut.
        answer.grant(1)
        await scripted.until(lambda: len(scripted.handshakes) > 1)
        answer.cancel()
        scripted.status = None
        *_, last = [event["type"] async for event in events]
        assert last == "response.cancelled"
    assert scripted.cancelled == {"resp_0"}


async def test_a_reader_with_credit_is_sent_no_more_than_it_takes(scripted):
    scripted.pieces = list("0123456789")
    async with scripted.client() as client:
        answer = client.stream("hi", credit=4)
        assert await answer.text() == "0123456789"
    assert scripted.frames[0]["credit"] == 4
    grants = [frame["tokens"] for frame in scripted.frames_of("response.credit")]
    assert grants == [4, 4]


async def test_credit_survives_a_cut(scripted):
    scripted.pieces = list("0123456789")
    scripted.cut_after = [4, 4]
    async with scripted.client() as client:
        assert await client.stream("hi", credit=2).text() == "0123456789"


async def test_orders_name_the_response(scripted):
    scripted.go_on.clear()
    async with scripted.client() as client, client.stream("hi") as answer:
        answer.stop()
        await anext(answer.events())
        answer.update(max_output_tokens=5, priority=-1)
        answer.stop()
        await scripted.until(lambda: scripted.frames_of("response.stop"))
    kinds = [frame["type"] for frame in scripted.frames[1:3]]
    assert kinds == ["response.update", "response.stop"]
    assert scripted.frames[1]["response_id"] == "resp_0"
    assert scripted.frames[1]["max_output_tokens"] == 5


async def test_a_conversation_sends_only_what_is_new(scripted):
    async with scripted.client() as client:
        chat = client.conversation(instructions="Be brief.", temperature=0)
        for text in ("one", "two"):
            assert "".join([piece async for piece in chat.say(text)]) == "Hello"
    first, second = scripted.frames
    assert "previous_response_id" not in first
    assert (second["input"], second["previous_response_id"]) == ("two", "resp_0")
    assert second["instructions"] == "Be brief."


async def test_a_turn_that_fails_leaves_the_conversation_as_it_was(scripted):
    async with scripted.client() as client:
        chat = client.conversation()
        assert [piece async for piece in chat.say("one")]
        scripted.refusals = [error(400, "invalid_value")]
        with pytest.raises(InvalidRequest):
            await anext(chat.say("two"))
        assert chat.last_id == "resp_0"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (error(400, "invalid_value", "seed: is odd", "seed"), InvalidRequest),
        (error(429, "rate_limit_exceeded"), Overloaded),
        (error(504, "deadline_exceeded"), DeadlineExceeded),
        (error(500, "engine_failed"), EngineFailed),
    ],
)
async def test_a_refusal_is_the_error_an_engine_would_raise(scripted, event, kind):
    scripted.refusals = [event]
    async with scripted.client() as client:
        with pytest.raises(kind) as caught:
            await client.stream("hi").text()
        assert caught.value.code == event["error"]["code"]
        assert await client.stream("hi").text() == "Hello"
    if kind is InvalidRequest:
        assert str(caught.value) == "seed: is odd"


async def test_an_overload_says_when_to_come_back(scripted):
    headers = {"retry-after": "3", "retry-after-ms": "2500"}
    scripted.refusals = [error(429, "rate_limit_exceeded", headers=headers)]
    async with scripted.client() as client:
        with pytest.raises(Overloaded) as caught:
            await client.stream("hi").text()
    assert caught.value.retry_after_s == 2.5


async def test_a_failure_in_mid_answer_comes_after_its_text(scripted):
    failed = {"error": {"message": "it broke", "code": "server_error"}}
    scripted.pieces = [
        "some",
        {"type": "error", **error(500, "engine_failed", "it broke")},
        {"type": "response.failed", "response": failed},
    ]
    async with scripted.client() as client:
        texts = aiter(client.stream("hi"))
        assert await anext(texts) == "some"
        with pytest.raises(EngineFailed, match="it broke"):
            await anext(texts)


async def test_a_key_that_does_not_fit_is_said_at_once(scripted):
    scripted.status = 401
    with pytest.raises(NotAdmitted, match="not you"):
        await Client(scripted.url, api_key="wrong").__aenter__()


async def test_a_key_asked_for_after_the_handshake_ends_every_answer(scripted):
    told = error(401, "missing_api_key", "an API key is needed")
    scripted.turned_away = {"type": "error", **told}
    async with scripted.client() as client:
        with pytest.raises(NotAdmitted, match="an API key is needed") as caught:
            await client.stream("hi").text()
    assert caught.value.code == "missing_api_key"
    assert len(scripted.handshakes) == 1


async def test_a_server_that_drops_every_connection_is_not_called_without_pause(
    scripted, monkeypatch
):
    drawn = []

    def delays():
        while True:
            drawn.append(0.0)
            yield 0.0

    monkeypatch.setattr("legato.client.link.delays", delays)
    scripted.cut_after = [0, 0, 0, 0]
    async with scripted.client() as client:
        assert await client.stream("hi").text() == "Hello"
    # The first drop may be chance; before each later attempt there is a wait.
    assert len(scripted.handshakes) == 5
    assert len(drawn) == 3


async def test_a_server_that_drops_every_connection_is_given_up(scripted):
    scripted.cut_after = [0] * 10_000
    async with scripted.client(patience_s=0.1) as client:
        with pytest.raises(ConnectionLost, match="before anything is said"):
            await client.stream("hi").text()


async def test_nobody_there_is_said_at_once(scripted):
    with pytest.raises(ConnectionLost, match="127"):
        await Client("ws://127.0.0.1:1").__aenter__()


async def test_a_server_that_does_not_come_back_loses_the_answer(scripted):
    scripted.cut_after = [2]
    async with scripted.client(patience_s=0.2) as client:
        answer = client.stream("hi")
        async with answer:
            events = answer.events()
            await anext(events)
            scripted.status = 503
            with pytest.raises(ConnectionLost, match="could not be reached"):
                [event async for event in events]
        scripted.status = None
        assert await client.stream("hi").text() == "Hello"


async def test_an_idle_client_reconnects_only_when_it_is_used(scripted):
    scripted.cut_after = [4]
    async with scripted.client() as client:
        assert await client.stream("hi").text() == "Hello"
        with contextlib.suppress(TimeoutError):
            # The cut comes with the next event.
            assert await client.stream("hi").text() == "Hello"
    assert len(scripted.handshakes) == 2


async def test_leaving_the_client_ends_its_answers(scripted):
    scripted.go_on.clear()
    async with scripted.client() as client:
        text = asyncio.ensure_future(client.stream("hi").text())
        await scripted.until(lambda: scripted.events)
    with pytest.raises(ConnectionLost, match="closed"):
        await text
    with pytest.raises(ConnectionLost, match="closed"):
        await client.stream("hi").text()


async def test_an_error_inside_the_block_stays_what_it_is(scripted):
    with pytest.raises(KeyError):
        async with Client(scripted.url):
            raise KeyError("mine")


def test_a_url_may_be_short():
    assert socket_url("ws://h:1") == "ws://h:1/v1/responses"
    assert socket_url("https://h/llm/v1/responses") == "wss://h/llm/v1/responses"
    for wrong in ("h:1", "ftp://h", ""):
        with pytest.raises(InvalidRequest):
            socket_url(wrong)


def test_waits_grow_to_a_bound():
    waits = delays()
    drawn = [next(waits) for _ in range(50)]
    assert drawn[0] <= 0.05
    assert max(drawn) <= 2
    assert min(drawn[10:]) >= 1
