"""A server of the protocol by script, whose connections can be cut at any event."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from legato.client import Client


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Scripted:
    """Answers every request with ``pieces``, and keeps what it was sent.

    Args:
        pieces: One delta each.
    """

    def __init__(self, pieces=("Hel", "lo")):
        self.pieces = list(pieces)
        self.frames = []
        self.handshakes = []
        self.cut_after = []
        self.refusals = []
        self.events = {}
        self.requests = {}
        self.cancelled = set()
        self.credit = {}
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.changed = asyncio.Condition()
        self.status = None
        self.forget = False
        self.turned_away = None

    async def until(self, condition):
        async with self.changed:
            await self.changed.wait_for(condition)

    async def _tell(self):
        async with self.changed:
            self.changed.notify_all()

    def frames_of(self, kind):
        return [frame for frame in self.frames if frame["type"] == kind]

    async def process_request(self, connection, request):
        self.handshakes.append(dict(request.headers))
        await self._tell()
        if self.status:
            body = json.dumps({"error": {"message": "not you"}})
            return connection.respond(self.status, body)
        return None

    async def handle(self, socket):
        left = self.cut_after.pop(0) if self.cut_after else None
        sent = [0]

        async def send(event):
            if left is not None and sent[0] >= left:
                socket.transport.abort()
                await socket.wait_closed()
            sent[0] += 1
            await socket.send(json.dumps(event))

        tasks = []
        try:
            async for message in socket:
                frame = json.loads(message)
                self.frames.append(frame)
                await self._tell()
                if self.turned_away:
                    await socket.send(json.dumps(self.turned_away))
                    await socket.close(1008)
                    return
                tasks.append(asyncio.create_task(self._serve(frame, send)))
        except ConnectionClosed:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, frame, send):
        kind = frame["type"].removeprefix("response.")
        await getattr(self, f"_{kind}")(frame, send)

    async def _create(self, frame, send):
        if self.refusals:
            error = self.refusals.pop(0)
            event = {"type": "error", "stream_id": frame["stream_id"], **error}
            await send(event)
            return
        name = f"resp_{len(self.events)}"
        self.events[name] = list(self._script(name, frame))
        self.requests[name] = frame
        self.credit[name] = frame.get("credit", 10**6)
        await self._tell()
        await self._follow(name, 0, send)

    def _script(self, name, frame):
        lane = frame["stream_id"]
        previous = frame.get("previous_response_id")
        response = {"id": name, "previous_response_id": previous}
        yield {"type": "response.created", "response": response, "stream_id": lane}
        for piece in self.pieces:
            if isinstance(piece, dict):
                yield {**piece, "stream_id": lane}
                continue
            kind = "response.output_text.delta"
            yield {"type": kind, "delta": piece, "stream_id": lane}
        if not isinstance(self.pieces[-1], dict):
            whole = {**response, "usage": {"output_tokens": len(self.pieces)}}
            yield {"type": "response.completed", "response": whole, "stream_id": lane}

    async def _follow(self, name, start, send):
        events = self.events[name]
        for number in range(start, len(events)):
            event = events[number]
            if event["type"] == "response.output_text.delta":
                if not self.credit[name]:
                    paused = {"type": "response.paused", "response_id": name}
                    await send(paused)
                    await self.until(lambda: self.credit[name] or self._over(name))
                self.credit[name] -= 1
                await self.go_on.wait()
            if self._over(name):
                lane = self.requests[name]["stream_id"]
                event = {"type": "response.cancelled", "response": {"id": name}}
                event["stream_id"] = lane
                events[number:] = [event]
                await send({**event, "sequence_number": number})
                return
            await send({**event, "sequence_number": number})

    def _over(self, name):
        return name in self.cancelled

    async def _resume(self, frame, send):
        name = frame["response_id"]
        if self.forget:
            error = {"code": "response_not_found", "message": "gone", "param": None}
            event = {"type": "error", "status": 404, "error": error}
            await send({**event, "response_id": name})
            return
        self.credit[name] += frame.get("credit", 0)
        await send({"type": "response.resumed", "response_id": name})
        await self._follow(name, frame["starting_after"] + 1, send)

    async def _cancel(self, frame, send):
        names = [
            name
            for name, asked in self.requests.items()
            if frame.get("response_id", name) == name
            and frame.get("stream_id", asked["stream_id"]) == asked["stream_id"]
        ]
        self.cancelled.update(names)
        self.go_on.set()
        await self._tell()

    async def _credit(self, frame, send):
        self.credit[frame["response_id"]] += frame["tokens"]
        await self._tell()

    async def _stop(self, frame, send):
        pass

    async def _update(self, frame, send):
        pass


@pytest.fixture
async def scripted():
    """A scripted server; ``async with scripted.client() as client``."""
    server = Scripted()
    async with serve(
        server.handle, "127.0.0.1", 0, process_request=server.process_request
    ) as listening:
        port = listening.sockets[0].getsockname()[1]
        server.url = f"ws://127.0.0.1:{port}"

        @asynccontextmanager
        async def client(**options):
            async with asyncio.timeout(20), Client(server.url, **options) as client:
                yield client

        server.client = client
        yield server
