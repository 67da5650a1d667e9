"""The AI SDK's chat over WebSocket, as its WebSocketChatTransport speaks it."""

import asyncio
import random

import pytest

from legato.protocol.errors import Overloaded
from legato.protocol.requests import Delta

pytestmark = pytest.mark.anyio

ENDS = ("end", "error", "no-active")


def send(request="r1", chat="chat-1", text="hi", **fields):
    return {
        "type": "send",
        "requestId": request,
        "id": chat,
        "trigger": "submit-message",
        "messages": [
            {"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]}
        ],
        "headers": {},
        "body": {},
        **fields,
    }


def resume(request="r2", chat="chat-1", **fields):
    given = {"requestId": request, "id": chat, "headers": {}, "body": {}}
    return {"type": "resume", **given, **fields}


def text_of(frames):
    chunks = [frame["chunk"] for frame in frames if frame["type"] == "chunk"]
    return "".join(chunk.get("delta", "") for chunk in chunks)


async def until_text(socket, text):
    frames = []
    while text_of(frames) != text:
        frames.append(await socket.receive())
    return frames


async def closing(socket):
    while (message := await socket.raw())["type"] != "websocket.close":
        pass
    return message


@pytest.mark.parametrize("path", ["/v1/chat", "/api/chat"])
async def test_a_turn_is_numbered_chunks_and_an_end(connect, path):
    socket = await connect(path)
    socket.send(send())
    *chunks, end = await socket.until(*ENDS)
    assert end == {"type": "end", "requestId": "r1"}
    assert [frame["sequence"] for frame in chunks] == list(range(len(chunks)))
    assert {frame["requestId"] for frame in chunks} == {"r1"}
    assert [frame["chunk"]["type"] for frame in chunks] == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert text_of(chunks) == "Hello"


async def test_requests_of_several_chats_share_a_socket(connect, engine, deltas):
    go = asyncio.Event()
    engine.scripts.extend([[Delta("a"), go, *deltas("a")], deltas("b", "b")])
    socket = await connect("/v1/chat")
    socket.send(send("r1", "chat-1"))
    await until_text(socket, "a")
    socket.send(send("r2", "chat-2"))
    frames = await socket.until("end")
    assert (frames[-1]["requestId"], text_of(frames)) == ("r2", "bb")
    go.set()
    assert (await socket.until("end"))[-1]["requestId"] == "r1"


async def test_an_answer_is_resumed_on_another_socket(connect, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = await connect("/v1/chat")
    first.send(send())
    told = await until_text(first, "Hel")
    first.disconnect()
    await first.task
    assert engine.open == 1
    second = await connect("/v1/chat")
    second.send(resume())
    assert await second.receive() == {"type": "start", "requestId": "r2"}
    again = await until_text(second, "Hel")
    assert [frame["chunk"] for frame in again] == [frame["chunk"] for frame in told]
    go.set()
    rest = await second.until("end")
    assert text_of(again + rest) == "Hello"
    assert engine.open == 0


async def test_a_resume_may_begin_after_what_was_read(connect, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = await connect("/v1/chat")
    first.send(send())
    last = (await until_text(first, "Hel"))[-1]["sequence"]
    second = await connect("/v1/chat")
    second.send(resume(lastSequence=last))
    assert (await second.receive())["type"] == "start"
    go.set()
    rest = await second.until("end")
    assert rest[0]["sequence"] == last + 1
    assert text_of(rest) == "lo"
    third = await connect("/v1/chat")
    third.send(resume(lastSequence=last))
    assert (await third.receive())["type"] == "no-active"


async def test_a_resume_beyond_the_answer_waits_for_what_comes(connect, engine, deltas):
    go = asyncio.Event()
    engine.script = [Delta("Hel"), go, *deltas("lo")]
    first = await connect("/v1/chat")
    first.send(send())
    await until_text(first, "Hel")
    second = await connect("/v1/chat")
    second.send(resume(lastSequence=10**9))
    await second.receive()
    go.set()
    assert text_of(await second.until("end")) == "lo"


async def test_there_may_be_nothing_to_resume(connect):
    socket = await connect("/v1/chat")
    socket.send(resume())
    assert await socket.receive() == {"type": "no-active", "requestId": "r2"}
    socket.send(send())
    await socket.until("end")
    socket.send(resume())
    assert (await socket.receive())["type"] == "no-active"


async def test_an_abort_ends_the_answer_for_all_who_read_it(connect, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    first, second = await connect("/v1/chat"), await connect("/v1/chat")
    first.send(send())
    await until_text(first, "Hel")
    second.send(resume())
    await until_text(second, "Hel")
    second.send({"type": "abort", "requestId": "r2"})
    for socket in (first, second):
        frames = await socket.until("end")
        kinds = [frame["chunk"]["type"] for frame in frames[:-1]]
        assert kinds == ["text-end", "abort"]
    await engine.until_open(0)
    first.send(resume("r3"))
    assert (await first.receive())["type"] == "no-active"


async def test_an_abort_at_once_is_heard(connect, engine):
    engine.script = [asyncio.Event()]
    socket = await connect("/v1/chat")
    socket.send(send())
    socket.send({"type": "abort", "requestId": "r1"})
    frames = await socket.until("end")
    assert [frame["chunk"]["type"] for frame in frames[:-1]][-1] == "abort"
    await engine.until_open(0)


async def test_an_abort_of_nothing_is_ignored(connect):
    socket = await connect("/v1/chat")
    socket.send({"type": "abort", "requestId": "r9"})
    socket.send(send())
    assert (await socket.until(*ENDS))[-1]["type"] == "end"


async def test_leaving_lets_go_after_the_grace_period(connect, make_app, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    socket = await connect("/v1/chat", app=make_app(resume_grace_s=0.01))
    socket.send(send())
    await until_text(socket, "Hel")
    socket.disconnect()
    await socket.task
    await engine.until_open(0)


async def test_a_request_that_cannot_be_served_is_an_error_frame(connect, engine):
    socket = await connect("/v1/chat")
    bad = [
        send(messages=[]),
        send(trigger="x"),
        send(body={"temprature": 1}),
        send(body={"model": "gpt"}),
        resume(request="r1", lastSequence=-5),
        {"type": "shout", "requestId": "r1"},
    ]
    for frame in bad:
        socket.send(frame)
        answer = await socket.receive()
        assert (answer["type"], answer["requestId"]) == ("error", "r1")
    engine.script = [Overloaded("full", retry_after_s=1)]
    socket.send(send())
    answer = await socket.receive()
    assert answer["type"] == "error"
    assert "full" in answer["errorText"]
    assert engine.open == 0


async def test_a_failure_in_mid_answer_is_an_error_chunk(connect, engine):
    engine.script = [Delta("Hel"), Overloaded("full", retry_after_s=1)]
    socket = await connect("/v1/chat")
    socket.send(send())
    frames = await socket.until(*ENDS)
    assert frames[-2]["chunk"]["type"] == "error"
    assert frames[-1]["type"] == "end"


async def test_too_many_requests_are_refused(connect, make_app, engine):
    engine.script = [asyncio.Event()]
    socket = await connect("/v1/chat", app=make_app(max_lanes=2))
    for number in range(3):
        socket.send(send(f"r{number}", f"chat-{number}"))
    answer = await socket.receive()
    assert (answer["type"], answer["requestId"]) == ("error", "r2")


@pytest.mark.parametrize(
    "frame",
    ["", "{", "[]", "5", "{}", b"\x00", '{"type": "send"}', '{"requestId": 5}'],
)
async def test_a_frame_that_names_no_request_closes_with_1008(connect, frame):
    socket = await connect("/v1/chat")
    socket.send(frame)
    assert (await closing(socket))["code"] == 1008


async def test_a_request_id_in_use_closes_with_1008(connect, engine):
    engine.script = [Delta("Hel"), asyncio.Event()]
    socket = await connect("/v1/chat")
    socket.send(send())
    await until_text(socket, "Hel")
    socket.send(send(chat="chat-2"))
    assert (await closing(socket))["code"] == 1008


async def test_random_frames_are_answered_in_the_protocols_shape(connect):
    socket = await connect("/v1/chat")
    draw = random.Random(5)
    values = [None, 1, "x", [], {}, [[]], [{}], {"type": "text"}, True, 1e9]
    keys = ["id", "messages", "trigger", "headers", "body", "lastSequence", "x"]
    for number in range(300):
        frame = {draw.choice(keys): draw.choice(values) for _ in range(4)}
        frame |= {"type": draw.choice(["send", "x", 7]), "requestId": f"r{number}"}
        socket.send(frame)
        answer = await socket.receive()
        assert answer["type"] == "error", frame
        assert answer["requestId"] == f"r{number}"


@pytest.mark.slow
async def test_a_slow_reader_stops_the_pulling(connect, make_app, engine, deltas):
    engine.script = deltas(*["x"] * 1000)
    socket = await connect("/v1/chat", app=make_app(outbox_entries=4))
    socket.stall()
    socket.send(send())
    await engine.until_open(1)
    for _ in range(100):
        await asyncio.sleep(0)
    assert engine.pulled <= 12
    socket.resume()
    frames = await socket.until("end")
    assert text_of(frames) == "x" * 1000
    numbers = [frame["sequence"] for frame in frames[:-1]]
    assert numbers == list(range(len(numbers)))
