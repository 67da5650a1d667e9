"""The official client's responses, over HTTP and sockets, against the real server.

Every event and object is held against the client's own models, strictly.
"""

import asyncio
import json
import typing

import pytest

openai = pytest.importorskip(
    "openai", reason="the openai client is not installed: run tests/conformance/run"
)

from openai.types.responses import (  # noqa: E402
    Response,
    response_item_list,
    response_stream_event,
)

ANSWER = "Hello, wörld 🌍!"


@pytest.fixture
def client(url):
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="sk-right", max_retries=0
    ) as client:
        yield client


def check_response(response):
    raw = response.to_dict()
    Response.model_validate(raw, strict=True)
    assert set(raw) <= set(Response.model_fields) | {"store"}
    return response


def check_event(event):
    union = typing.get_args(response_stream_event.ResponseStreamEvent)[0]
    for model in typing.get_args(union):
        if typing.get_args(model.model_fields["type"].annotation) == (event.type,):
            model.model_validate(event.to_dict(), strict=True)
            return event
    assert event.type == "response.cancelled", event.type
    return event


def test_a_response_is_made_fetched_and_deleted(client):
    made = check_response(client.responses.create(model="fake", input="hi"))
    assert (made.status, made.output_text) == ("completed", ANSWER)
    assert check_response(client.responses.retrieve(made.id)) == made
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_a_response_is_streamed(client):
    with client.responses.create(model="fake", input="hi", stream=True) as stream:
        events = [check_event(event) for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    texts = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(texts) == ANSWER
    assert events[-1].type == "response.completed"


def test_the_clients_own_accumulator_rebuilds_the_response(client):
    with client.responses.stream(model="fake", input="hi") as stream:
        stream.until_done()
        final = stream.get_final_response()
    assert final.output_text == ANSWER


def test_a_conversation_goes_on_with_only_what_is_new(client):
    first = client.responses.create(model="fake", input="hi " * 100)
    second = client.responses.create(
        model="fake", input="and?", previous_response_id=first.id
    )
    assert second.previous_response_id == first.id
    assert second.usage.input_tokens > first.usage.input_tokens
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens - 32
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model="fake", input="hi", previous_response_id="resp_no"
        )
    assert caught.value.code == "previous_response_not_found"


def test_a_response_in_the_background_is_polled_and_streamed_again(client):
    made = check_response(
        client.responses.create(model="fake", input="hi", background=True)
    )
    while made.status in ("queued", "in_progress"):
        made = check_response(client.responses.retrieve(made.id))
    assert made.output_text == ANSWER
    with client.responses.retrieve(made.id, stream=True) as stream:
        events = [check_event(event) for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    with client.responses.retrieve(made.id, stream=True, starting_after=5) as stream:
        assert [event.sequence_number for event in stream] == list(
            range(6, len(events))
        )


def test_a_response_in_the_background_is_cancelled(client):
    made = client.responses.create(
        model="fake",
        input="hi",
        background=True,
        max_output_tokens=900,
        extra_body={"ignore_eos": True},
    )
    assert check_response(client.responses.cancel(made.id)).status == "cancelled"
    assert client.responses.retrieve(made.id).status == "cancelled"


def test_input_items_are_listed(client):
    made = client.responses.create(
        model="fake", input=[{"role": "user", "content": text} for text in "abc"]
    )
    page = client.responses.input_items.list(made.id, limit=2)
    response_item_list.ResponseItemList.model_validate(page.to_dict())
    assert [item.content[0].text for item in page] == ["c", "b", "a"]


def test_errors_become_the_clients_own(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="fake", input="hi", temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt", input="hi")
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_no")


ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "now": {"type": "boolean"}},
    "required": ["city", "now"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "name": "temperature",
        "description": "Tells how warm it is.",
        "parameters": ARGUMENTS,
        "strict": True,
    }
]
CALLING = {
    "model": "fake",
    "input": "How warm is it?",
    "tools": TOOLS,
    "parallel_tool_calls": False,
}


def check_call(response):
    """The one call of a response, whose arguments keep to the schema."""
    (call,) = response.output
    assert (call.type, call.name, call.status) == (
        "function_call",
        "temperature",
        "completed",
    )
    arguments = json.loads(call.arguments)
    assert arguments.keys() == {"city", "now"}
    assert arguments["city"] in ("Oslo", "Rome")
    return call


def given(call):
    return {"type": "function_call_output", "call_id": call.call_id, "output": "9 °C"}


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "name": "temperature"}]
)
def test_a_function_is_called_and_its_result_answered(client, choice):
    first = check_response(client.responses.create(**CALLING, tool_choice=choice))
    call = check_call(first)
    assert first.tools[0].name == "temperature"
    on_the_server = client.responses.create(
        **{**CALLING, "input": [given(call)]}, previous_response_id=first.id
    )
    at_the_client = client.responses.create(
        **{
            **CALLING,
            "input": [{"role": "user", "content": "?"}, *first.output, given(call)],
        },
        store=False,
    )
    for second in (on_the_server, at_the_client):
        assert check_response(second).output_text == ANSWER
    items = client.responses.input_items.list(on_the_server.id)
    assert [item.type for item in items] == ["function_call_output"]


def test_a_call_is_streamed(client):
    with client.responses.create(
        **CALLING, tool_choice="required", stream=True
    ) as stream:
        events = [check_event(event) for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    call = check_call(events[-1].response)
    kind = "response.function_call_arguments"
    deltas = [event.delta for event in events if event.type == f"{kind}.delta"]
    (done,) = [event for event in events if event.type == f"{kind}.done"]
    assert "".join(deltas) == done.arguments == call.arguments
    assert {event.item_id for event in events if event.type.startswith(kind)} == {
        call.id
    }


def test_the_clients_own_accumulator_rebuilds_a_call(client):
    with client.responses.stream(**CALLING, tool_choice="required") as stream:
        stream.until_done()
        final = stream.get_final_response()
    call = check_call(final)
    assert call.parsed_arguments == json.loads(call.arguments)


def test_a_tool_that_runs_elsewhere_is_refused_by_name(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model="fake", input="hi", tools=[{"type": "web_search"}]
        )
    assert caught.value.param == "tools[0].type"
    assert "web_search" in caught.value.message


def test_a_function_is_called_on_a_socket(url):
    async def call_and_answer():
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-right")
        async with client, client.responses.connect() as connection:
            await connection.response.create(
                **CALLING, tool_choice="required", store=False
            )
            first = (await last_of(connection)).response
            call = check_call(first)
            await connection.response.create(
                **{**CALLING, "input": [given(call)]},
                previous_response_id=first.id,
                store=False,
            )
            assert (await last_of(connection)).response.output_text == ANSWER

    asyncio.run(call_and_answer())


def test_turns_follow_one_another_on_a_socket(url):
    asyncio.run(talk(url))


async def talk(url):
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-right")
    async with client, client.responses.connect() as connection:
        await connection.response.create(
            model="fake", input="hi", store=False, generate=False
        )
        warm = await last_of(connection)
        assert (warm.type, warm.response.output) == ("response.completed", [])
        await connection.response.create(
            model="fake",
            input="and?",
            store=False,
            previous_response_id=warm.response.id,
        )
        end = await last_of(connection)
        assert end.response.output_text == ANSWER
        await connection.response.create(
            model="fake", input="x", previous_response_id="resp_no"
        )
        error = await last_of(connection)
        assert error.error.code == "previous_response_not_found"
        assert error.status == 400


async def last_of(connection):
    async for event in connection:
        if event.type in ("response.completed", "response.failed", "error"):
            return event
    raise AssertionError("the socket closed")
