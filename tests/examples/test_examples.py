"""The examples run as they are, on the paced device."""

import asyncio
import importlib.util
import json
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from legato.engine import Engine, FakeModel
from legato.serve import ServeSettings, serve

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_each_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    assert f"examples/{path.name}" in load(path.stem).__doc__


@pytest.mark.slow
def test_batch_answers_every_prompt(capsys):
    batch = load("batch")
    asyncio.run(batch.main("fake"))
    out = capsys.readouterr().out
    assert all(prompt in out for prompt in batch.PROMPTS)


@pytest.mark.slow
def test_structured_output_has_its_form_or_says_that_it_was_cut(capsys):
    asyncio.run(load("structured_output").main("fake"))
    out = capsys.readouterr().out
    assert out.startswith("{")
    assert "Event(title=" in out or out.endswith("the answer was cut: no event\n")


@pytest.mark.slow
def test_cancel_on_disconnect_leaves_no_page_in_use(capsys):
    asyncio.run(load("cancel_on_disconnect").main("fake"))
    out = capsys.readouterr().out
    assert "the stream ended: cancelled" in out
    assert "gave up waiting" in out
    assert out.endswith("pages in use: 0\n")


@asynccontextmanager
async def serving(model):
    """A server's URL, for clients."""
    listening = asyncio.get_running_loop().create_future()
    ready = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(
            Engine(model),
            ServeSettings(port=0),
            on_listening=listening.set_result,
            on_ready=ready.set_result,
        )
    )
    url, server = await listening, await ready
    yield url.replace("http", "ws", 1)
    server.stop()
    await task


@pytest.mark.slow
def test_websocket_client_gets_an_answer_in_each_lane(capsys):
    client = load("websocket_client")

    async def main():
        async with serving(FakeModel(script=b"An answer.")) as url:
            await client.main(f"{url}/v1/responses")

    asyncio.run(main())
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{lane}: An answer." for lane in client.QUESTIONS)


@pytest.mark.slow
def test_tool_loop_runs_what_is_called_and_tells_the_answer(capsys):
    async def main():
        async with serving(FakeModel(script=b"Cold.")) as url:
            await load("tool_loop").main(url)

    asyncio.run(main())
    called, said = capsys.readouterr().out.splitlines()
    assert called.startswith("[temperature({")
    assert "gave -3 °C" in called or "gave 17 °C" in called
    assert said == "Cold."


@pytest.mark.slow
def test_fastapi_app_serves_its_own_endpoint_and_the_protocols():
    app = load("fastapi_app").make_app("fake")

    async def main():
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            haiku = await client.get("/haiku", params={"about": "rain"})
            assert haiku.status_code == 200
            assert haiku.text
            models = (await client.get("/llm/v1/models")).json()
            assert [model["id"] for model in models["data"]] == ["fake"]
            body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
            answer = (await client.post("/llm/v1/chat/completions", json=body)).json()
            assert answer["usage"]["completion_tokens"] == 3

    asyncio.run(main())


@pytest.mark.slow
def test_starlette_app_serves_its_own_endpoint_and_the_protocols():
    app = load("starlette_app").make_app("fake")

    async def main():
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            summary = await client.post("/summary", content="It rained.")
            assert summary.status_code == 200
            assert summary.text
            models = (await client.get("/llm/v1/models")).json()
            assert [model["id"] for model in models["data"]] == ["fake"]
            described = (await client.get("/llm/openapi.json")).json()
            assert described["servers"] == [{"url": "/llm"}]
            page = {"origin": "https://chat.example"}
            assert (await client.get("/llm/v1/models", headers=page)).is_success

    asyncio.run(main())


@pytest.mark.slow
def test_aiohttp_app_pushes_tokens_and_lets_go_of_who_leaves():
    pytest.importorskip("aiohttp")
    from aiohttp.test_utils import TestClient, TestServer

    example = load("aiohttp_app")

    async def main():
        async with TestClient(TestServer(example.make_app("fake"))) as client:
            engine = client.server.app[example.ENGINE]
            socket = await client.ws_connect("/ask")
            await socket.send_str("hi")
            pieces = [await socket.receive_str()]
            while pieces[-1]:
                pieces.append(await socket.receive_str())
            assert "".join(pieces)
            await socket.send_str("x" * 5000)
            assert "context" in (await socket.receive_json())["error"]
            await socket.send_str("hi")
            await socket.receive_str()
            await socket.close()
            await engine.wait_idle()
            assert engine.stats().core.pages_used == 0

    asyncio.run(main())


@pytest.mark.slow
def test_worker_answers_every_job_and_outlives_a_bad_one(capsys):
    worker = load("worker")
    jobs = [json.dumps({"id": n, "prompt": f"job {n}"}) for n in range(12)]
    jobs.append(json.dumps({"id": 12, "prompt": "x" * 5000}))
    asyncio.run(worker.main("fake", jobs))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(13))
    assert [answer["id"] for answer in answers if "error" in answer] == [12]
