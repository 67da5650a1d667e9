"""Probes and scrapes."""

import asyncio

import pytest

from legato.protocol.errors import EngineClosed
from legato.version import __version__

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


async def test_a_ready_engine_is_healthy(call):
    answer = await call("GET", "/health")
    assert (answer.status, answer.json["status"]) == (200, "ready")


@pytest.mark.parametrize(
    "state", ["starting", "stalled", "draining", "failed", "closed"]
)
async def test_any_other_state_is_503_with_its_cause(call, engine, state):
    engine.state = state
    engine.failure = "out of memory" if state == "failed" else ""
    answer = await call("GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, state)
    assert answer.json["cause"]
    if state == "failed":
        assert answer.json["cause"] == "out of memory"


async def test_a_ping_is_answered_as_a_health_check(call, engine):
    for method in ("GET", "POST"):
        answer = await call(method, "/ping")
        assert (answer.status, answer.json["status"]) == (200, "ready")
    engine.state = "failed"
    assert (await call("POST", "/ping")).status == 503


async def test_the_version_is_the_packages(call):
    assert (await call("GET", "/version")).json == {"version": __version__}


async def test_a_closed_gate_reads_as_draining(call, app):
    app.gate.close()
    answer = await call("GET", "/health")
    assert (answer.status, answer.json["status"]) == (503, "draining")


async def test_requests_while_the_model_loads_are_told_to_wait(call, engine):
    engine.state = "starting"
    answer = await call("POST", CHAT, HELLO)
    assert answer.status == 503
    assert "loading" in answer.error["message"]
    assert "retry-after" in answer.headers


async def test_health_answers_while_an_answer_is_stuck(begin, call, engine):
    engine.script = [asyncio.Event()]
    stuck = begin("POST", CHAT, HELLO)
    await engine.until_open(1)
    assert (await call("GET", "/health")).status == 200
    stuck.disconnect()
    await stuck.done()


async def test_metrics_join_the_engine_and_the_front_end(call):
    await call("POST", CHAT, HELLO)
    await call("GET", "/nothing")
    answer = await call("GET", "/metrics")
    text = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/plain")
    assert "engine_metric 1" in text
    assert f'legato_http_requests_total{{route="{CHAT}",status="200"}} 1.0' in text
    assert 'legato_http_requests_total{route="none",status="404"} 1.0' in text
    assert "legato_answers_open 0.0" in text


async def test_an_engine_without_metrics_leaves_the_front_ends_own(call, engine):
    def closed():
        raise EngineClosed("not started")

    engine.metrics_text = closed
    answer = await call("GET", "/metrics")
    assert answer.status == 200
    assert b"legato_websockets_open" in answer.body
