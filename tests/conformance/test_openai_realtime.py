"""The official client's Realtime connection against the real server, text alone."""

import asyncio
import typing

import pytest

openai = pytest.importorskip(
    "openai", reason="the openai client is not installed: run tests/conformance/run"
)

from openai.types.realtime import RealtimeSessionCreateResponse  # noqa: E402
from openai.types.realtime.realtime_server_event import (  # noqa: E402
    RealtimeServerEvent,
)

ANSWER = "Hello, wörld 🌍!"


def event_models():
    """The client's model of each event, by its type."""
    models = {}
    for model in typing.get_args(typing.get_args(RealtimeServerEvent)[0]):
        (kind,) = typing.get_args(model.model_fields["type"].annotation)
        models[kind] = model
    return models


def check_shape(event):
    """Hold an event against the client's own model of it, strictly."""
    raw = event.to_dict()
    model = event_models()[raw["type"]]
    assert set(raw) <= set(model.model_fields), raw["type"]
    if "session" in raw:
        known = set(RealtimeSessionCreateResponse.model_fields)
        assert set(raw["session"]) <= known
        RealtimeSessionCreateResponse.model_validate(raw["session"], strict=True)
    else:
        model.model_validate(raw, strict=True)
    for name in ("response", "error"):
        if name in raw:
            known = set(model.model_fields[name].annotation.model_fields)
            assert set(raw[name]) <= known, name


def talk(url, conversation):
    """Connect, check every event's shape, and run a conversation."""

    async def run():
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-right")
        async with client, client.realtime.connect(model="fake") as connection:
            receive = connection.recv

            async def checked():
                event = await receive()
                check_shape(event)
                return event

            connection.recv = checked
            assert (await connection.recv()).type == "session.created"
            await conversation(connection)

    asyncio.run(run())


async def until(connection, kind):
    events = [await connection.recv()]
    while events[-1].type != kind:
        events.append(await connection.recv())
    return events


def user(text):
    part = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}


def test_turns_are_taken_and_the_next_reads_little_anew(url):
    async def conversation(connection):
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "be brief " * 20,
                "output_modalities": ["text"],
            }
        )
        updated = await connection.recv()
        assert updated.session.instructions == "be brief " * 20
        anew = []
        for _ in range(2):
            await connection.conversation.item.create(item=user("hi"))
            await connection.response.create()
            events = await until(connection, "response.done")
            deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
            assert "".join(deltas) == ANSWER
            response = events[-1].response
            assert response.status == "completed"
            assert response.output[0].content[0].text == ANSWER
            details = response.usage.input_token_details
            anew.append(response.usage.input_tokens - details.cached_tokens)
        assert anew[1] < anew[0] / 2

    talk(url, conversation)


def test_a_response_beside_the_conversation(url):
    async def conversation(connection):
        await connection.response.create(
            response={
                "conversation": "none",
                "input": [user("classify this")],
                "metadata": {"topic": "classification"},
                "max_output_tokens": 5,
            }
        )
        response = (await until(connection, "response.done"))[-1].response
        assert response.conversation_id is None
        assert response.metadata == {"topic": "classification"}
        assert response.status_details.reason == "max_output_tokens"
        assert response.output[0].content[0].text == "Hello"

    talk(url, conversation)


def test_items_are_retrieved_and_deleted(url):
    async def conversation(connection):
        await connection.conversation.item.create(item=user("hi"))
        name = (await until(connection, "conversation.item.done"))[-1].item.id
        await connection.conversation.item.retrieve(item_id=name)
        assert (await connection.recv()).item.content[0].text == "hi"
        await connection.conversation.item.delete(item_id=name)
        assert (await connection.recv()).item_id == name

    talk(url, conversation)


def test_a_cancelled_response_ends(long_url):
    async def conversation(connection):
        await connection.conversation.item.create(item=user("hi"))
        await connection.response.create()
        await until(connection, "response.output_text.delta")
        await connection.response.cancel()
        response = (await until(connection, "response.done"))[-1].response
        assert response.status == "cancelled"
        assert response.status_details.reason == "client_cancelled"

    talk(long_url, conversation)


def test_errors_keep_the_session(url):
    async def conversation(connection):
        await connection.input_audio_buffer.append(audio="AAAA")
        error = (await connection.recv()).error
        assert "audio" in error.message
        await connection.response.cancel(event_id="mine")
        error = (await connection.recv()).error
        assert (error.event_id, error.code) == ("mine", "response_cancel_not_active")
        await connection.conversation.item.create(item=user("hi"))
        await until(connection, "conversation.item.done")

    talk(url, conversation)
