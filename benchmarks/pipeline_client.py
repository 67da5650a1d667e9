"""The WebSocket readers of the pipeline benchmark: one light process for all of them.

It speaks just enough WebSocket to count what comes in and to know when it was due. The
benchmark starts it, and tells it by lines on its standard input when to count.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import uvloop
from pipeline_device import Follower, StepClock

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
DELTA = b'"delta":"'
MEASURED_READERS = 32
# Under way at once: more would wait for each other in the server all the same.
SHAKING = 64
ASKING = 512
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def masked(kind: int, payload: bytes) -> bytes:
    """A client's frame: it must be masked, and need not hide anything: with zeros."""
    size = len(payload)
    head = bytes((0x80 | kind, 0x80 | size)) if size < 126 else b""
    head = head or bytes((0x80 | kind, 0xFE)) + size.to_bytes(2, "big")
    return head + bytes(4) + payload


def create(max_tokens: int, **fields: Any) -> bytes:
    """The frame that asks for an answer."""
    event: dict[str, Any] = {
        "type": "response.create",
        "input": "abc",
        "temperature": 0,
        "max_output_tokens": max_tokens,
    }
    return masked(TEXT, json.dumps(event | fields).encode())


class Tally:
    """What all readers got while it counted."""

    def __init__(self) -> None:
        self.counting = False
        self.tokens = 0
        self.frames = 0
        self.delays_s: list[float] = []
        self.lost = 0

    def start(self) -> None:
        """Count from nothing."""
        self.tokens = self.frames = self.lost = 0
        self.delays_s = []
        self.counting = True

    def stop(self) -> dict[str, Any]:
        """End counting, and say what was counted."""
        self.counting = False
        return {
            "tokens": self.tokens,
            "frames": self.frames,
            "lost": self.lost,
            "client_cpu_s": time.process_time(),
            "delays_s": self.delays_s,
        }


class Reader(asyncio.Protocol):
    """One socket with one stream.

    Args:
        tally: Where it counts.
        follower: To measure delays with, or None.
    """

    def __init__(self, tally: Tally, follower: Follower | None) -> None:
        loop = asyncio.get_running_loop()
        self.shaken: asyncio.Future[None] = loop.create_future()
        self.begun: asyncio.Future[None] = loop.create_future()
        self._tally = tally
        self._follower = follower
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Shake hands."""
        # uvloop's transports are none by inheritance.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.write(HANDSHAKE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it as lost; whoever still waits for it is told."""
        self._tally.lost += 1
        for waited in (self.shaken, self.begun):
            if not waited.done():
                waited.set_exception(exc or ConnectionResetError("closed at once"))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        assert self._transport is not None
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Take frames apart."""
        buffer = self._buffer + data if self._buffer else data
        if not self.shaken.done():
            head, found, buffer = buffer.partition(b"\r\n\r\n")
            if not found:
                self._buffer = head
                return
            self.shaken.set_result(None)
        start, size = 0, len(buffer)
        while size - start >= 2:
            length, begin = buffer[start + 1], start + 2
            if length >= 126:
                wide = 2 if length == 126 else 8
                length = int.from_bytes(buffer[begin : begin + wide], "big")
                begin += wide
            end = begin + length
            if end > size or begin > size:
                break
            self._take(buffer[start] & 0xF, buffer[begin:end])
            start = end
        self._buffer = buffer[start:]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == PING:
            self.write(masked(PONG, payload))
        begin = payload.find(DELTA)
        if begin < 0:
            return
        begin += len(DELTA)
        text = payload[begin : payload.index(b'"', begin)]
        tally = self._tally
        if not self.begun.done():
            self.begun.set_result(None)
        if self._follower is not None:
            delays_s = self._follower.see(text, time.perf_counter())
            if tally.counting:
                tally.delays_s += delays_s
        if tally.counting:
            tally.tokens += len(text)
            tally.frames += 1


async def each(
    readers: Sequence[Reader], act: Callable[[Reader], Awaitable[None]], most: int
) -> None:
    """Do something with every reader, with so many at a time."""
    room = asyncio.Semaphore(most)

    async def act_in_turn(reader: Reader) -> None:
        async with room:
            await act(reader)

    async with asyncio.TaskGroup() as group:
        for reader in readers:
            group.create_task(act_in_turn(reader))


async def open_all(readers: Sequence[Reader], port: int, max_tokens: int) -> None:
    """Connect every reader, then ask for every answer, and wait for its first token.

    Args:
        readers: Each of one socket.
        port: Of the server on this machine.
        max_tokens: To ask for; 0 asks for nothing and only reads, and below that
            nothing is even expected.
    """
    loop = asyncio.get_running_loop()

    async def shake(reader: Reader) -> None:
        await loop.create_connection(lambda: reader, "127.0.0.1", port)
        await reader.shaken

    async def ask(reader: Reader) -> None:
        if max_tokens > 0:
            reader.write(create(max_tokens))
        await reader.begun

    await each(readers, shake, SHAKING)
    if max_tokens >= 0:
        await each(readers, ask, ASKING)


async def main() -> None:
    """Open every stream, count between two lines of input, print, and so on."""
    port, streams, max_tokens = map(int, sys.argv[1:4])
    clock_path = sys.argv[4]
    loop = asyncio.get_running_loop()
    tally = Tally()
    stride = max(1, streams // MEASURED_READERS)
    readers: list[Reader] = []
    for number in range(streams):
        measures = number % stride == 0 and clock_path
        follower = Follower(StepClock(clock_path)) if measures else None
        readers.append(Reader(tally, follower))
    await open_all(readers, port, max_tokens)
    print("begun", flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        tally.start()
        await loop.run_in_executor(None, sys.stdin.readline)
        print(json.dumps(tally.stop()), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
