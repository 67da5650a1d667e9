"""Every way an answer can end: exactly one end, with the right reason."""

import httpx
import msgspec
import pytest

from legato.engine import FakeModel
from legato.gpu.fake import FAKE_LIMITS
from legato.protocol.errors import DeadlineExceeded, EngineClosed, EngineFailed
from legato.protocol.requests import Delta, FinishReason, Usage

from .live_server import TERMINAL, assert_pages_are_back, events_of, running

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}]}
CREATE = {"type": "response.create", "input": "hi"}

USAGE = Usage(3, 1)
SOME = Delta("some", (1,))
ENDS = {
    "stop": ([SOME, Delta("", (), (), FinishReason.STOP, USAGE)], "completed"),
    "length": ([SOME, Delta("", (), (), FinishReason.LENGTH, USAGE)], "incomplete"),
    "failure": ([SOME, EngineFailed("boom")], "failed"),
    "deadline": ([SOME, DeadlineExceeded("too late")], "failed"),
    "shutdown": ([SOME, EngineClosed("going")], "failed"),
    "accident": ([SOME, RuntimeError("boom")], "failed"),
    "cut": ([SOME, Delta("", (), (), FinishReason.CANCELLED, USAGE)], "failed"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("path", "body"), [(CHAT, ASK), (TEXT, {"prompt": "hi"})])
async def test_a_stream_over_http_is_done_once_whatever_ends_it(
    call, engine, end, path, body
):
    engine.script, _ = ENDS[end]
    answer = await call("POST", path, {**body, "stream": True})
    assert answer.events.count("[DONE]") == 1
    assert answer.events[-1] == "[DONE]"
    chunks = [event for event in answer.events[:-1] if "error" not in event]
    errors = [event for event in answer.events[:-1] if "error" in event]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    if end in ("stop", "length"):
        assert (errors, reasons[-1]) == ([], end)
        assert set(reasons[:-1]) <= {None}
        last = chunks[-1]["choices"][0]
        assert last.get("delta", {}) == {}
        assert last.get("text", "") == ""
    else:
        assert len(errors) == 1
        assert set(reasons) == {None}
    assert engine.open == 0


@pytest.mark.parametrize("end", ENDS)
async def test_a_response_has_one_terminal_event_whatever_ends_it(connect, engine, end):
    engine.script, kind = ENDS[end]
    socket = await connect()
    socket.send(CREATE)
    events = await socket.until(*TERMINAL)
    assert events[-1]["type"] == f"response.{kind}"
    engine.script, _ = ENDS["stop"]
    socket.send(CREATE)
    following = await socket.until(*TERMINAL)
    # Nothing of the first came after its end.
    assert following[0]["type"] == "response.created"
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(events)))
    assert engine.open == 0


LIMITS = msgspec.structs.replace(FAKE_LIMITS, max_context=64)


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ({"prompt": "hi", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "hi", "max_tokens": 1}, ("length", 1)),
        ({"prompt": "hi", "max_tokens": 10_000}, ("length", 62)),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": "x" * 63, "max_tokens": 9}, ("length", 1)),
        ({"prompt": "x" * 64}, "prompt"),
        ({"prompt": "x" * 65}, "prompt"),
        ({"prompt": "x" * 100_000}, "prompt"),
        ({"prompt": [1] * 63, "max_tokens": 9}, ("length", 1)),
        ({"prompt": [1] * 64}, "prompt"),
    ],
)
async def test_the_edges_of_lengths_are_answered_or_refused_by_name(body, outcome):
    model = FakeModel(script=b"x" * 100, limits=LIMITS)
    async with (
        running(model) as run,
        httpx.AsyncClient(base_url=run.url, timeout=20) as client,
    ):
        answer = await client.post(TEXT, json=body)
        streamed = await client.post(TEXT, json={**body, "stream": True})
        if isinstance(outcome, str):
            assert (answer.status_code, streamed.status_code) == (400, 400)
            assert answer.json() == streamed.json()
            assert answer.json()["error"]["param"] == outcome
        else:
            reason, tokens = outcome
            assert answer.json()["choices"][0]["finish_reason"] == reason
            assert answer.json()["usage"]["completion_tokens"] == tokens
            assert streamed.text.endswith("data: [DONE]\n\n")
        await assert_pages_are_back(run.engine)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
async def test_a_response_to_a_prompt_of_any_length_ends(size):
    async with (
        running(FakeModel(script=b"ok", limits=LIMITS)) as run,
        run.connect() as websocket,
    ):
        frame = msgspec.json.encode({**CREATE, "input": "x" * size})
        await websocket.send(frame.decode())
        events = await events_of(websocket)
        assert events[-1]["type"] in TERMINAL
        await assert_pages_are_back(run.engine)
