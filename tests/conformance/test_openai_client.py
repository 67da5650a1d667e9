"""The official client against the real server, over HTTP and over WebSocket.

It pins an older websockets than Legato's, so it lives in an environment of its own:
``tests/conformance/run``.
"""

import asyncio
import typing

import pytest

openai = pytest.importorskip(
    "openai", reason="the openai client is not installed: run tests/conformance/run"
)

import pydantic  # noqa: E402
from openai.types.responses import responses_server_event  # noqa: E402

ANSWER = "Hello, wörld 🌍!"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(url):
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="sk-right", max_retries=0
    ) as client:
        yield client


def test_a_chat_is_answered(client):
    answer = client.chat.completions.create(model="fake", messages=MESSAGES)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == len(ANSWER.encode()) + 1


def test_a_chat_is_streamed_with_usage(client):
    with client.chat.completions.create(
        model="fake",
        messages=MESSAGES,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == ANSWER
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0


def test_the_clients_own_accumulator_rebuilds_the_answer(client):
    with client.chat.completions.stream(model="fake", messages=MESSAGES) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    assert final.choices[0].message.content == ANSWER


def test_several_answers_are_parsed(client):
    answer = client.chat.completions.create(model="fake", messages=MESSAGES, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {ANSWER}
    assert answer.usage.completion_tokens == 3 * (len(ANSWER.encode()) + 1)


def test_the_clients_own_accumulator_tells_several_answers_apart(client):
    with client.chat.completions.stream(model="fake", messages=MESSAGES, n=2) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == [ANSWER] * 2
    assert [choice.finish_reason for choice in final.choices] == ["stop"] * 2


def test_several_prompts_are_answered(client):
    answer = client.completions.create(model="fake", prompt=["a", "b"], max_tokens=99)
    assert [choice.text for choice in answer.choices] == [ANSWER] * 2


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_a_prompt_is_scored_as_evaluations_ask_for_it(client, max_tokens):
    answer = client.completions.create(
        model="fake",
        prompt=["one", "two"],
        max_tokens=max_tokens,
        echo=True,
        logprobs=1,
        temperature=0,
    )
    for choice, prompt in zip(answer.choices, ("one", "two"), strict=True):
        assert choice.text == prompt + ANSWER[:max_tokens]
        logprobs = choice.logprobs
        assert len(logprobs.tokens) == 3 + max_tokens
        assert logprobs.token_logprobs[0] is None
        assert logprobs.top_logprobs[0] is None
        assert all(value <= 0 for value in logprobs.token_logprobs[1:])
        assert logprobs.text_offset == list(range(3 + max_tokens))
    assert answer.usage.completion_tokens == 2 * max_tokens


def test_logprobs_are_parsed(client):
    answer = client.chat.completions.create(
        model="fake", messages=MESSAGES, max_tokens=2, logprobs=True, top_logprobs=1
    )
    first, second = answer.choices[0].logprobs.content
    assert (first.token, second.token) == ("H", "e")
    assert first.top_logprobs[0].bytes == [ord("H")]
    assert answer.choices[0].finish_reason == "length"


def test_a_text_is_completed_whole_and_streamed(client):
    whole = client.completions.create(model="fake", prompt="hi", max_tokens=5)
    assert whole.choices[0].text == "Hello"
    assert whole.choices[0].finish_reason == "length"
    stream = client.completions.create(
        model="fake", prompt=[1, 2], max_tokens=50, stream=True, stop=["wör"]
    )
    assert "".join(c.choices[0].text for c in stream if c.choices) == "Hello, "


class Forecast(pydantic.BaseModel):
    place: typing.Literal["here", "there"]
    rain: bool


TOOL = openai.pydantic_function_tool(Forecast)


def test_a_form_is_kept_and_parsed_into_the_clients_own_model(client):
    answer = client.chat.completions.parse(
        model="fake", messages=MESSAGES, response_format=Forecast
    )
    assert isinstance(answer.choices[0].message.parsed, Forecast)
    with client.chat.completions.stream(
        model="fake", messages=MESSAGES, response_format=Forecast
    ) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == answer.choices[0].message.parsed
    response = client.responses.parse(
        model="fake", input="hi", text_format=Forecast, store=False
    )
    assert isinstance(response.output_parsed, Forecast)


def test_calls_are_parsed_whole_and_gathered_from_a_stream(client):
    asked = {
        "model": "fake",
        "messages": MESSAGES,
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    choice = client.chat.completions.parse(**asked).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert isinstance(call.function.parsed_arguments, Forecast)
    with client.chat.completions.stream(**asked) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    (again,) = final.choices[0].message.tool_calls
    assert again.function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "no"}
    message = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
    for one in message["tool_calls"]:
        one["function"].pop("parsed_arguments")
    after = client.chat.completions.create(
        model="fake", messages=[*MESSAGES, message, result], tools=[TOOL]
    )
    assert after.choices[0].message.role == "assistant"


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").owned_by == "legato"


def test_errors_become_the_clients_own(client, url):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="fake", messages=MESSAGES, max_tokens=0)
    assert caught.value.param == "max_tokens"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="fake", messages=[])
    assert caught.value.param == "messages"
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="sk-wrong") as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_a_client_that_breaks_off_leaves_the_server_well(client):
    for _ in range(3):
        with client.chat.completions.create(
            model="fake", messages=MESSAGES, stream=True
        ) as stream:
            next(iter(stream))
    test_a_chat_is_answered(client)


def event_models():
    """The client's model of each event, by its type."""
    annotated = responses_server_event.ResponsesServerEvent
    union = typing.get_args(annotated)[0]
    models = {}
    for model in typing.get_args(union):
        (kind,) = typing.get_args(model.model_fields["type"].annotation)
        models[kind] = model
    return models


def check_shape(event):
    """Hold an event against the client's own model of it, strictly."""
    raw = event.to_dict()
    model = event_models()[raw["type"]]
    assert set(raw) <= set(model.model_fields), raw["type"]
    model.model_validate(raw, strict=True)
    if "response" in raw:
        known = set(model.model_fields["response"].annotation.model_fields)
        assert set(raw["response"]) <= known | {"store"}


TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


def test_responses_over_a_socket(url):
    asyncio.run(talk_on_two_lanes(url))


async def talk_on_two_lanes(url):
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-right")
    async with client, client.responses.connect() as connection:
        for lane in ("a", "b"):
            await connection.response.create(
                model="fake",
                input=MESSAGES,
                instructions="be brief",
                max_output_tokens=100,
                stream_id=lane,
            )
        ends, texts = {}, {"a": "", "b": ""}
        async for event in connection:
            check_shape(event)
            if event.type == "response.output_text.delta":
                texts[event.stream_id] += event.delta
            if event.type in TERMINAL:
                ends[event.stream_id] = event
            if len(ends) == 2:
                break
    assert texts == {"a": ANSWER, "b": ANSWER}
    assert {end.type for end in ends.values()} == {"response.completed"}
    assert ends["a"].response.output_text == ANSWER


def test_a_bad_request_over_a_socket_is_an_error_event(url):
    asyncio.run(ask_badly_then_well(url))


async def ask_badly_then_well(url):
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-right")
    async with client, client.responses.connect() as connection:
        await connection.response.create(model="fake", input="hi", temperature=-1)
        event = await connection.recv()
        check_shape(event)
        assert (event.type, event.status) == ("error", 400)
        assert event.error.param == "temperature"
        await connection.response.create(model="fake", input="hi", max_output_tokens=5)
        events = []
        async for event in connection:
            check_shape(event)
            events.append(event.type)
            if event.type in TERMINAL:
                break
    assert events[-1] == "response.incomplete"
