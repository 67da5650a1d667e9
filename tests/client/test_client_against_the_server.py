"""The client against the real server, and a line that is cut in mid-answer."""

import asyncio
import random
import runpy
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from legato.client import Client
from legato.engine import Engine, FakeModel
from legato.protocol.errors import InvalidRequest, NotAdmitted
from legato.protocol.openai.response_fields import CreateFrame
from legato.serve import ServeSettings, serve

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(
        "resumable" not in CreateFrame.__struct_fields__,
        reason="this server's responses do not outlive their socket",
    ),
]

ANSWER = "".join(f"word {number}, größer 🌍; " for number in range(12))


@asynccontextmanager
async def serving(model=None, **options):
    """A server's port and engine."""
    loop = asyncio.get_running_loop()
    listening, ready = loop.create_future(), loop.create_future()
    engine = Engine(model or FakeModel(script=ANSWER.encode(), step_s=0.001))
    task = asyncio.create_task(
        serve(
            engine,
            ServeSettings(port=0, **options),
            on_listening=listening.set_result,
            on_ready=ready.set_result,
        )
    )
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    url, server = await listening, await ready
    try:
        yield int(url.rpartition(":")[2]), engine
    finally:
        server.stop()
        await task


class Line:
    """A proxy that cuts each connection after so many bytes from the server.

    Args:
        port: The server's.
        cuts: One number a connection; those after the last are never cut.
    """

    def __init__(self, port, cuts):
        self._port = port
        self._cuts = list(cuts)
        self._tasks = set()
        self.connections = 0

    async def carry(self, reader, writer):
        self.connections += 1
        left = self._cuts.pop(0) if self._cuts else None
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        up = asyncio.create_task(self._copy(reader, back, None))
        try:
            await self._copy(there, writer, left)
        finally:
            up.cancel()
            # Both ends learn of it at once, without a farewell.
            for end in (writer, back):
                end.transport.abort()

    async def _copy(self, reader, writer, left):
        while data := await reader.read(4096):
            if left is not None and len(data) >= left:
                writer.write(data[:left])
                return
            left = None if left is None else left - len(data)
            writer.write(data)
            await writer.drain()

    @asynccontextmanager
    async def laid(self):
        async with await asyncio.start_server(self.carry, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]


async def check_pages(engine):
    await engine.wait_idle()
    core = engine.stats().core
    assert (core.live, core.pages_used) == (0, 0)
    assert core.pages_free + core.pages_cached == core.pages_total


@pytest.mark.parametrize("seed", range(3))
async def test_a_line_that_is_cut_in_mid_answer_changes_no_text(seed):
    chance = random.Random(seed)
    cuts = [chance.randrange(300, 6000) for _ in range(8)]
    async with asyncio.timeout(30), serving() as (port, engine):
        line = Line(port, cuts)
        async with (
            line.laid() as cut_port,
            Client(f"ws://127.0.0.1:{cut_port}") as client,
            asyncio.TaskGroup() as group,
        ):
            texts = [group.create_task(client.stream("hi").text()) for _ in range(4)]
        assert {text.result() for text in texts} == {ANSWER}
        assert line.connections > 2
        await check_pages(engine)


async def test_babble_is_the_same_cut_or_not():
    model = FakeModel(step_s=0.001)
    async with asyncio.timeout(30), serving(model) as (port, _engine):
        options = {"max_output_tokens": 300, "ignore_eos": True, "seed": 1}
        async with Client(f"ws://127.0.0.1:{port}") as client:
            undisturbed = await client.stream("hi", **options).text()
        async with (
            Line(port, [2000, 4000, 3000, 9000]).laid() as cut_port,
            Client(f"ws://127.0.0.1:{cut_port}") as client,
        ):
            assert await client.stream("hi", **options).text() == undisturbed


async def test_leaving_early_frees_the_answer_on_the_server():
    model = FakeModel(step_s=0.001)
    async with (
        asyncio.timeout(30),
        serving(model) as (port, engine),
        Client(f"ws://127.0.0.1:{port}") as client,
    ):
        async for _ in client.stream("hi", ignore_eos=True):
            break
        await check_pages(engine)
        assert engine.stats().core.output_tokens < 1000


async def test_credit_paces_the_server_and_loses_nothing():
    async with (
        asyncio.timeout(30),
        serving() as (port, _engine),
        Client(f"ws://127.0.0.1:{port}") as client,
    ):
        answer = client.stream("hi", credit=16)
        kinds, pieces = set(), []
        async for event in answer.events():
            kinds.add(event["type"])
            pieces.append(event.get("delta", ""))
        assert "".join(pieces) == ANSWER
        assert "response.paused" in kinds


async def test_a_conversation_goes_on_from_what_the_server_holds():
    async with (
        asyncio.timeout(30),
        serving() as (port, _engine),
        Client(f"ws://127.0.0.1:{port}") as client,
    ):
        chat = client.conversation()
        for turn in ("one", "two", "three"):
            said = [piece async for piece in chat.say(turn)]
            assert "".join(said) == ANSWER
        usage = chat.last.usage
        assert usage["input_tokens"] > 2 * len(ANSWER.encode())
        assert usage["input_tokens_details"]["cached_tokens"] > len(ANSWER)


async def test_orders_change_a_running_answer():
    model = FakeModel(step_s=0.001)
    async with (
        asyncio.timeout(30),
        serving(model) as (port, _engine),
        Client(f"ws://127.0.0.1:{port}") as client,
    ):
        async with client.stream("hi", ignore_eos=True) as answer:
            texts = aiter(answer)
            await anext(texts)
            answer.update(max_output_tokens=100)
            assert [text async for text in texts]
        assert (answer.status, answer.usage["output_tokens"]) == ("incomplete", 100)
        async with client.stream("hi", ignore_eos=True) as answer:
            texts = aiter(answer)
            await anext(texts)
            answer.stop()
            async for _ in texts:
                pass
        assert answer.status == "incomplete"


async def test_keys_and_refusals_are_typed():
    async with asyncio.timeout(30), serving(api_keys=("sk-1",)) as (port, _engine):
        url = f"ws://127.0.0.1:{port}"
        with pytest.raises(NotAdmitted):
            await Client(url, api_key="sk-2").__aenter__()
        async with Client(url, api_key="sk-1") as client:
            with pytest.raises(InvalidRequest) as caught:
                await client.stream("hi", temperature=-1).text()
            assert caught.value.field == "temperature"
            with pytest.raises(InvalidRequest) as caught:
                await client.stream("hi", previous_response_id="resp_0").text()
            assert caught.value.code == "previous_response_not_found"
            assert await client.stream("hi").text() == ANSWER


async def test_the_example_talks_on_every_way(capsys):
    path = Path(__file__).parents[2] / "examples" / "resuming_client.py"
    example = runpy.run_path(str(path))
    async with asyncio.timeout(30), serving() as (port, engine):
        await example["main"](f"ws://127.0.0.1:{port}")
        await check_pages(engine)
    out = capsys.readouterr().out
    assert all(f"> {turn}" in out for turn in example["TURNS"])
    assert "failed" not in out


async def test_functions_are_called_and_what_they_gave_is_the_next_turn():
    now = {"type": "function", "name": "now"}
    async with (
        asyncio.timeout(30),
        serving(FakeModel(script=b"Late.")) as (port, engine),
        Client(f"ws://127.0.0.1:{port}") as client,
    ):
        chat = client.conversation(tools=[now], parallel_tool_calls=False)
        assert chat.calls == ()
        said = [text async for text in chat.say("?", tool_choice="required")]
        assert said == []
        (call,) = chat.calls
        assert (call.name, call.arguments) == ("now", "{}")
        item = {"type": "function_call_output", "call_id": call.id, "output": "9"}
        assert "".join([text async for text in chat.say([item])]) == "Late."
        assert chat.calls == ()
        await check_pages(engine)
