"""The debug page: strict about what it loads, open only where it tells nothing."""

import asyncio
import re

import msgspec
import pytest

from legato.protocol.errors import EngineClosed, Overloaded
from legato.serve import ServeSettings, create_app

pytestmark = pytest.mark.anyio

FILES = ("/debug", "/debug/page.js", "/debug/page.css")


@pytest.fixture
def engine(engine):
    """The scripted engine, with figures and traces."""
    engine.lengths = []

    async def trace(duration_s):
        engine.lengths.append(duration_s)
        return b'{"traceEvents":[]}'

    engine.stats = lambda: {"state": "ready", "open_streams": 3}
    engine.trace = trace
    return engine


@pytest.mark.parametrize("path", FILES)
async def test_the_page_is_served_from_the_package_under_a_strict_policy(call, path):
    answer = await call("GET", path)
    assert answer.status == 200
    assert len(answer.body) > 1000
    headers = answer.headers
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


async def test_the_page_loads_nothing_but_its_own_files(call):
    page = (await call("GET", "/debug")).body.decode()
    linked = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sorted(linked) == ["data:,", "debug/page.css", "debug/page.js"]
    assert not re.search(r"<style|<script>|\bstyle=|\bon\w+=", page)


async def test_every_element_the_script_asks_for_is_in_the_page(call):
    page = (await call("GET", "/debug")).body.decode()
    script = (await call("GET", "/debug/page.js")).body.decode()
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', script))
    assert wanted
    assert wanted <= set(re.findall(r'id="([\w-]+)"', page))


async def test_every_control_of_the_page_has_a_name(call):
    page = (await call("GET", "/debug")).body.decode()
    for button in re.findall(r"<button[^>]*>(.*?)</button>", page):
        assert button.strip()
    assert '<label for="key">' in page
    assert re.search(r"<label>[^<]*<input id=\"trace-seconds\"", page)


async def test_stats_are_the_engines_as_json(call):
    answer = await call("GET", "/debug/stats")
    assert answer.json == {
        "answers_open": 0,
        "engine": {"state": "ready", "open_streams": 3},
    }
    assert answer.headers["cache-control"] == "no-store"


async def test_an_engine_that_is_not_open_has_no_stats(call, engine):
    def closed():
        raise EngineClosed("the engine was not started")

    engine.stats = closed
    assert (await call("GET", "/debug/stats")).status == 503


@pytest.mark.parametrize(
    ("query", "seconds"), [("", 5.0), ("seconds=0.5", 0.5), ("seconds=60", 60.0)]
)
async def test_a_trace_takes_as_long_as_asked(app, engine, query, seconds):
    status, body, headers = await post_trace(app, query)
    assert (status, body) == (200, b'{"traceEvents":[]}')
    assert engine.lengths == [seconds]
    assert b"attachment" in headers[b"content-disposition"]


@pytest.mark.parametrize("given", ["0", "-1", "61", "nan", "inf", "soon", "1e9"])
async def test_a_trace_of_no_length_is_refused(app, engine, given):
    status, body, _ = await post_trace(app, f"seconds={given}")
    assert status == 400
    assert msgspec.json.decode(body)["error"]["param"] == "seconds"
    assert engine.lengths == []


async def test_a_failed_engine_says_so_instead_of_tracing_nothing(app, engine):
    engine.state, engine.failure = "failed", "out of memory"
    status, body, _ = await post_trace(app, "")
    error = msgspec.json.decode(body)["error"]
    assert (status, error["code"]) == (503, "engine_failed")
    assert "the engine has failed" in error["message"]
    assert "out of memory" in error["message"]
    assert engine.lengths == []


async def test_a_second_trace_at_once_is_429(app, engine):
    async def busy(duration_s):
        raise Overloaded("another trace is being recorded", retry_after_s=5.0)

    engine.trace = busy
    status, _, headers = await post_trace(app, "")
    assert status == 429
    assert headers[b"retry-after"] == b"5"


async def test_a_client_that_leaves_ends_its_trace(begin, engine):
    started, ended = asyncio.Event(), asyncio.Event()

    async def trace(duration_s):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    engine.trace = trace
    call = begin("POST", "/debug/trace")
    await started.wait()
    call.disconnect()
    await call.done()
    assert ended.is_set()


async def test_figures_and_traces_need_a_key_and_the_page_does_not(call, engine):
    app = create_app(engine, ServeSettings(api_keys=("secret",)))
    for path in FILES:
        assert (await call("GET", path, app=app)).status == 200
    assert (await call("GET", "/debug/stats", app=app)).status == 401
    assert (await call("POST", "/debug/trace", app=app)).status == 401
    key = {"authorization": "Bearer secret"}
    assert (await call("GET", "/debug/stats", headers=key, app=app)).status == 200


async def post_trace(app, query):
    """Ask for a trace; returns status, body and headers."""
    sent = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/debug/trace",
        "query_string": query.encode(),
        "headers": [],
    }
    first = [{"type": "http.request", "body": b""}]

    async def receive():
        if first:
            return first.pop()
        return await asyncio.Future()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], body, dict(sent[0]["headers"])
