"""Functions in the Responses API, over HTTP and sockets, on the paced device."""

import json

import httpx
import jsonschema
import msgspec
import pytest

from legato.engine import FakeModel
from legato.gpu.fake import FakeRunner, fake_text

from ..live_server import assert_pages_are_back, events_of, running

pytestmark = pytest.mark.anyio

URL = "/v1/responses"
ARGUMENTS = {
    "type": "object",
    "properties": {"where": {"enum": ["here", "there"]}, "days": {"type": "boolean"}},
    "required": ["where", "days"],
    "additionalProperties": False,
}
FORECAST = {
    "type": "function",
    "name": "forecast",
    "description": "Ask.",
    "parameters": ARGUMENTS,
    "strict": False,
}
NOW = {"type": "function", "name": "now", "strict": False}
TEXT = 'Let me see.\n<tool_call>\n{"name": "forecast", "arguments": '
TEXT += '{"where": "hëre 🌍"}}\n</tool_call>\n<tool_call>\n'
TEXT += '{"name": "now", "arguments": {}}\n</tool_call>'
SHOWN = [
    ("message", "completed", "Let me see.\n"),
    ("forecast", "completed", '{"where": "hëre 🌍"}'),
    ("now", "completed", "{}"),
]
END = fake_text().stop_ids[0]


def model(first=TEXT, later="Rain.", step_s=0.001):
    """Says one thing to a short prompt, and another to one that goes on from it."""
    shortest = []

    def script(prompt, number):
        shortest[:] = [min([prompt, *shortest])]
        answer = (first if prompt == shortest[0] else later).encode()
        return answer[number] if number < len(answer) else END

    return FakeModel(runner=lambda: FakeRunner(step_s=step_s, script=script))


def asking(**fields):
    return {"input": "Will it rain?", "tools": [FORECAST, NOW], **fields}


def shown(response):
    return [
        ("message", item["status"], item["content"][0]["text"])
        if item["type"] == "message"
        else (item["name"], item["status"], item["arguments"])
        for item in response["output"]
    ]


def joined(events):
    """Each item's deltas, joined, by its id."""
    pieces = {}
    for event in events:
        if event["type"].endswith(".delta"):
            name = event["item_id"]
            pieces[name] = pieces.get(name, "") + event["delta"]
    return list(pieces.values())


def answered(response):
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "yes"}
        for item in response["output"]
        if item["type"] == "function_call"
    ]


async def streamed(client, body):
    async with client.stream("POST", URL, json={**body, "stream": True}) as answer:
        lines = [line async for line in answer.aiter_lines()]
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


async def test_a_whole_loop_over_http_with_the_conversation_on_the_server():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        first = (await client.post(URL, json=asking())).json()
        assert (first["status"], shown(first)) == ("completed", SHOWN)
        assert [tool["name"] for tool in first["tools"]] == ["forecast", "now"]
        stored = (await client.get(f"{URL}/{first['id']}")).json()
        assert stored == first
        body = asking(input=answered(first), previous_response_id=first["id"])
        second = (await client.post(URL, json=body)).json()
        assert shown(second) == [("message", "completed", "Rain.")]
        listed = (await client.get(f"{URL}/{second['id']}/input_items")).json()
        assert {item["type"] for item in listed["data"]} == {"function_call_output"}
        wrong = [{**answered(first)[0], "call_id": "call_no"}]
        body = asking(input=wrong, previous_response_id=first["id"])
        refused = await client.post(URL, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")
        await assert_pages_are_back(run.engine)


async def test_a_whole_loop_over_http_with_the_conversation_at_the_client():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        user = {"role": "user", "content": "Will it rain?"}
        first = (await client.post(URL, json=asking(input=[user], store=False))).json()
        items = [user, *first["output"], *answered(first)]
        second = (await client.post(URL, json=asking(input=items, store=False))).json()
        assert shown(second) == [("message", "completed", "Rain.")]


async def test_what_is_streamed_is_what_is_told_whole():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        events = await streamed(client, asking())
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.completed"
        assert shown(events[-1]["response"]) == SHOWN
        assert joined(events) == [one[2] for one in SHOWN]
        kinds = [event["type"] for event in events]
        assert kinds.count("response.function_call_arguments.done") == 2
        assert kinds.count("response.function_call_arguments.delta") > 10


async def test_calls_that_must_come_are_valid_whatever_the_model():
    async with (
        running(FakeModel()) as run,
        httpx.AsyncClient(base_url=run.url) as client,
    ):
        named = {"type": "function", "name": "forecast"}
        for choice in ("required", named):
            body = asking(tool_choice=choice, parallel_tool_calls=False)
            response = (await client.post(URL, json=body)).json()
            assert response["tool_choice"] == choice
            ((name, status, arguments),) = shown(response)
            assert status == "completed"
            if choice is named or name == "forecast":
                assert name == "forecast"
                jsonschema.validate(json.loads(arguments), ARGUMENTS)
        await assert_pages_are_back(run.engine)


async def test_without_a_choice_the_same_text_is_text():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        response = (await client.post(URL, json=asking(tool_choice="none"))).json()
        assert shown(response) == [("message", "completed", TEXT)]


async def test_a_call_cut_by_length_is_incomplete_and_left_out_of_the_next_turn():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        body = asking(max_output_tokens=75)
        first = (await client.post(URL, json=body)).json()
        assert first["status"] == "incomplete"
        assert shown(first)[-1][:2] == ("forecast", "incomplete")
        assert SHOWN[1][2].startswith(shown(first)[-1][2])
        body = asking(input="Go on.", previous_response_id=first["id"])
        assert (await client.post(URL, json=body)).json()["status"] == "completed"


async def test_a_response_in_the_background_can_be_streamed_again():
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        first = (await client.post(URL, json=asking(background=True))).json()
        url = f"{URL}/{first['id']}?stream=true&starting_after="
        async with client.stream("GET", f"{url}-1") as answer:
            text = (await answer.aread()).decode()
        events = [
            json.loads(line[6:]) for line in text.splitlines() if "data: " in line
        ]
        assert shown(events[-1]["response"]) == SHOWN
        again = (await client.get(f"{url}20")).text
        assert text.endswith(again)


async def test_a_schema_that_does_not_compile_names_the_function():
    bad = {**FORECAST, "parameters": {"type": "strin"}, "strict": True}
    async with running(model()) as run, httpx.AsyncClient(base_url=run.url) as client:
        refused = await client.post(URL, json=asking(tools=[bad]))
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "tools"
        assert "'forecast'" in refused.json()["error"]["message"]


@pytest.mark.parametrize("packed", [False, True])
async def test_a_whole_loop_over_a_socket(packed):
    async with running(model()) as run:
        encode, decode = msgspec.json.encode, msgspec.json.decode
        protocols = {}
        if packed:
            encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
            protocols = {"subprotocols": ["legato.msgpack"]}

        async def ask(**fields):
            frame = encode({"type": "response.create", **fields})
            await socket.send(frame if packed else frame.decode())
            events = [decode(await socket.recv())]
            while events[-1]["type"] != "response.completed":
                events.append(decode(await socket.recv()))
            assert [e["sequence_number"] for e in events] == list(range(len(events)))
            return events[-1]["response"]

        async with run.connect(**protocols) as socket:
            first = await ask(**asking(store=False))
            assert shown(first) == SHOWN
            second = await ask(
                **asking(input=answered(first), previous_response_id=first["id"])
            )
            assert shown(second) == [("message", "completed", "Rain.")]
        await assert_pages_are_back(run.engine)


async def test_credit_pauses_within_a_call_and_leaves_no_seam():
    async with running(model()) as run, run.connect() as socket:

        async def send(**frame):
            await socket.send(json.dumps(frame))

        await send(type="response.create", credit=60, **asking())
        events = []
        while not events or events[-1]["type"] != "response.completed":
            events.append(json.loads(await socket.recv()))
            if events[-1]["type"] == "response.paused":
                await send(type="response.credit", tokens=60)
        assert sum(event["type"] == "response.paused" for event in events) >= 2
        assert shown(events[-1]["response"]) == SHOWN
        assert joined(events) == [one[2] for one in SHOWN]


async def test_a_call_is_resumed_on_another_socket_without_a_seam():
    async with running(model(step_s=0.002)) as run:
        async with run.connect() as socket:
            frame = {"type": "response.create", "resumable": True, **asking()}
            await socket.send(json.dumps(frame))
            seen = [json.loads(await socket.recv())]
            while seen[-1]["type"] != "response.function_call_arguments.delta":
                seen.append(json.loads(await socket.recv()))
        async with run.connect() as socket:
            resume = {"response_id": seen[0]["response"]["id"]}
            resume["starting_after"] = seen[-1]["sequence_number"]
            await socket.send(json.dumps({"type": "response.resume", **resume}))
            resumed, *rest = await events_of(socket)
        assert resumed["type"] == "response.resumed"
        events = seen + rest
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert joined(events) == [one[2] for one in SHOWN]
        assert shown(events[-1]["response"]) == SHOWN


async def test_a_response_is_cancelled_within_a_call():
    long = '<tool_call>\n{"name": "now", "arguments": {"a": "' + "x" * 1500
    async with running(model(long)) as run, run.connect() as socket:
        await socket.send(json.dumps({"type": "response.create", **asking()}))
        while '"delta":"x"' not in await socket.recv():
            pass
        await socket.send(json.dumps({"type": "response.cancel"}))
        *_, last = await events_of(socket)
        assert last["type"] == "response.cancelled"
        ((name, status, arguments),) = shown(last["response"])
        assert (name, status) == ("now", "incomplete")
        assert arguments.startswith('{"a": "x')
        await assert_pages_are_back(run.engine)
