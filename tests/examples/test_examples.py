"""The examples run as they are, on the paced device."""

import asyncio
import importlib.util
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


@pytest.mark.slow
def test_websocket_client_gets_an_answer_in_each_lane(capsys):
    client = load("websocket_client")

    async def main():
        listening = asyncio.get_running_loop().create_future()
        ready = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(
                Engine(FakeModel(script=b"An answer.")),
                ServeSettings(port=0),
                on_listening=listening.set_result,
                on_ready=ready.set_result,
            )
        )
        url, server = await listening, await ready
        await client.main(url.replace("http", "ws", 1) + "/v1/responses")
        server.stop()
        await serving

    asyncio.run(main())
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{lane}: An answer." for lane in client.QUESTIONS)


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
