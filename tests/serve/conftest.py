"""An engine that answers by script, and ASGI clients that speak byte by byte."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

import msgspec
import pytest

from legato.actors.text.tools import ToolParser
from legato.actors.text.tools.format import HERMES
from legato.protocol.errors import Overloaded
from legato.protocol.requests import Delta, FinishReason, Usage
from legato.serve import ServeSettings, create_app


@pytest.fixture
def anyio_backend():
    return "asyncio"


def text_deltas(*texts, reason=FinishReason.STOP, usage=None):
    """A script: one delta for each text, then the end."""
    usage = usage or Usage(3, len(texts), 1)
    return [*(Delta(text, (1,)) for text in texts), Delta("", (), (), reason, usage)]


class ScriptedStream:
    """Deltas are given, errors raised, events waited for."""

    def __init__(self, engine, script):
        self._engine = engine
        self._script = deque(script)
        self._cancelled = asyncio.Event()
        self._closed = False
        self._credit = None
        self._granted = asyncio.Event()

    def close(self):
        if not self._closed:
            self._closed = True
            self._engine.let_go()

    def cancel(self):
        self._engine.cancels += 1
        self._cancelled.set()

    def limit(self, credit):
        self._credit = credit

    def grant(self, tokens):
        self._credit += tokens
        self._granted.set()

    @property
    def is_starved(self):
        return self._credit == 0

    def amend(self, **changes):
        self._engine.amendments.append(changes)

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self._cancelled.is_set():
            if self.is_starved:
                self._granted.clear()
                await self._first_of(self._granted, self._cancelled)
                continue
            if not self._script:
                raise StopAsyncIteration
            step = self._script.popleft()
            if isinstance(step, asyncio.Event):
                await self._first_of(step, self._cancelled)
                continue
            if isinstance(step, Exception):
                self._script.clear()
                raise step
            self._engine.pulled += 1
            if self._credit is not None:
                self._credit -= min(self._credit, len(step.token_ids))
            return step
        self._cancelled.clear()
        self._script.clear()
        return Delta("", (), (), FinishReason.CANCELLED, Usage(3, 1))

    @staticmethod
    async def _first_of(*events):
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class ScriptedEngine:
    """Answers every request by ``script``, or the next of ``scripts``."""

    name = "scripted"
    max_context = 512
    vocab_size = 256

    def __init__(self):
        self.state = "ready"
        self.failure = ""
        self.script = text_deltas("Hel", "lo")
        self.scripts = deque()
        self.refusal = None
        self.requests = []
        self.terms = []
        self.open = 0
        self.max_open = 1000
        self.pulled = 0
        self.cancels = 0
        self.amendments = []
        self.changed = asyncio.Condition()
        self.tells = set()

    @asynccontextmanager
    async def stream(self, prompt, params=None, *, tenant="", **terms):
        if self.refusal is not None:
            raise self.refusal
        if self.open >= self.max_open:
            raise Overloaded("full", retry_after_s=1.0)
        self.requests.append((prompt, params, tenant))
        self.terms.append(terms)
        self.open += 1
        await self._tell()
        script = self.scripts.popleft() if self.scripts else self.script
        stream = ScriptedStream(self, script)
        try:
            yield stream
        finally:
            stream.close()

    def let_go(self):
        self.open -= 1
        tell = asyncio.ensure_future(self._tell())
        self.tells.add(tell)
        tell.add_done_callback(self.tells.discard)

    async def _tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def until_open(self, number):
        """Wait until so many streams are open."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.open == number)

    def default_params(self):
        return {"temperature": 0.25}

    def token_bytes(self, token):
        return bytes([token % 128])

    def tool_parser(self):
        return ToolParser(HERMES)

    def metrics_text(self):
        return b"engine_metric 1\n"


class HttpCall:
    """One HTTP request through an ASGI application, message by message."""

    def __init__(self, app, method, path, headers, body, root_path=""):
        path, _, query = path.partition("?")
        self.messages = []
        self._inbox = asyncio.Queue()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "root_path": root_path,
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "extensions": {},
        }
        self.scope = scope
        for piece in body[:-1]:
            self.push({"type": "http.request", "body": piece, "more_body": True})
        if body:
            self.push({"type": "http.request", "body": body[-1]})
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, self._send))

    def push(self, message):
        self._inbox.put_nowait(message)

    def disconnect(self):
        self.push({"type": "http.disconnect"})

    def stall(self):
        self._writable.clear()

    def resume(self):
        self._writable.set()

    async def _send(self, message):
        await self._writable.wait()
        self.messages.append(message)
        self._changed.set()

    async def wait_for(self, text):
        """Wait until the body so far holds some text."""
        while text not in self.body:
            self._changed.clear()
            await self._changed.wait()

    async def done(self):
        await self.task
        return self

    @property
    def status(self):
        return self.messages[0]["status"]

    @property
    def headers(self):
        return {k.decode(): v.decode() for k, v in self.messages[0]["headers"]}

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def json(self):
        return msgspec.json.decode(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The data of each server-sent event, decoded but for ``[DONE]``."""
        *events, rest = self.body.decode().split("\n\n")
        assert rest == ""
        data = [event.removeprefix("data: ") for event in events]
        return [d if d == "[DONE]" else msgspec.json.decode(d) for d in data]


class SocketCall:
    """One WebSocket through an ASGI application, message by message."""

    def __init__(self, app, path, headers, extensions=None, subprotocols=()):
        self.messages = []
        self._inbox = asyncio.Queue()
        self._outbox = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        scope = {
            "type": "websocket",
            "path": path,
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "subprotocols": list(subprotocols),
            "extensions": {} if extensions is None else extensions,
        }
        self._inbox.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._inbox.get, self._send))

    async def _send(self, message):
        await self._writable.wait()
        self.messages.append(message)
        self._outbox.put_nowait(message)

    def stall(self):
        self._writable.clear()

    def resume(self):
        self._writable.set()

    def send(self, message):
        """Send an object as JSON, or text or bytes as they are."""
        if isinstance(message, bytes):
            item = {"type": "websocket.receive", "bytes": message}
        else:
            if not isinstance(message, str):
                message = msgspec.json.encode(message).decode()
            item = {"type": "websocket.receive", "text": message}
        self._inbox.put_nowait(item)

    def disconnect(self):
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def raw(self):
        return await self._outbox.get()

    async def receive(self):
        message = await self.raw()
        assert message["type"] == "websocket.send", message
        if "bytes" in message:
            return msgspec.msgpack.decode(message["bytes"])
        return msgspec.json.decode(message["text"])

    async def until(self, *kinds):
        """Receive up to the first event of one of these types, and return all."""
        events = [await self.receive()]
        while events[-1]["type"] not in kinds:
            events.append(await self.receive())
        return events


@pytest.fixture
def engine():
    return ScriptedEngine()


@pytest.fixture
def deltas():
    return text_deltas


@pytest.fixture
def app(engine):
    return create_app(engine)


@pytest.fixture
def make_app(engine):
    return lambda **options: create_app(engine, ServeSettings(**options))


@pytest.fixture
def call(app):
    """Make an HTTP request: ``await call("POST", path, json)``."""

    async def run(method, path, body=None, headers=None, *, app=app, **options):
        return await begin_call(app, method, path, body, headers, **options).done()

    return run


@pytest.fixture
def begin(app):
    """Begin an HTTP request and return at once."""

    def run(method, path, body=None, headers=None, *, app=app, **options):
        return begin_call(app, method, path, body, headers, **options)

    return run


def begin_call(app, method, path, body, headers, **options):
    headers = dict(headers or {})
    if body is not None:
        headers.setdefault("content-type", "application/json")
    if body is not None and not isinstance(body, bytes | list):
        body = msgspec.json.encode(body)
    pieces = body if isinstance(body, list) else [body or b""]
    return HttpCall(app, method, path, headers, pieces, **options)


@pytest.fixture
def connect_once():
    """Open a WebSocket in a loop of the test's own."""

    async def run(app):
        socket = SocketCall(app, "/v1/responses", {})
        await socket.raw()
        return socket

    return run


@pytest.fixture
async def connect(app):
    """Open a WebSocket; closed at the end of the test."""
    calls = []

    async def run(path="/v1/responses", headers=None, *, app=app, **options):
        socket = SocketCall(app, path, headers or {}, **options)
        calls.append(socket)
        socket.accepted = await socket.raw()
        assert socket.accepted["type"] == "websocket.accept"
        return socket

    yield run
    for socket in calls:
        socket.disconnect()
        await socket.task
