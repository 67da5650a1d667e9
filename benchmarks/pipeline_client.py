"""The WebSocket readers of the pipeline benchmark: one light process for all of them.

It speaks just enough WebSocket to count what comes in and to know when it was due. The
benchmark starts it, and tells it by lines on its standard input when to count.
"""

import asyncio
import json
import sys
import time
from typing import Any, cast

import uvloop
from pipeline_device import Follower, StepClock

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
DELTA = b'"delta":"'
MEASURED_READERS = 32


class Tally:
    """What all readers got while it counted.

    Args:
        streams: Readers that are expected.
    """

    def __init__(self, streams: int) -> None:
        self.counting = False
        self.tokens = 0
        self.frames = 0
        self.delays_s: list[float] = []
        self.lost = 0
        self._missing = streams
        self.all_begun = asyncio.Event()

    def begin(self) -> None:
        """One more reader has its first token."""
        self._missing -= 1
        if not self._missing:
            self.all_begun.set()


class Reader(asyncio.Protocol):
    """One socket with one stream.

    Args:
        tally: Where it counts.
        follower: To measure delays with, or None.
        max_tokens: To ask for; 0 asks for nothing and only reads, and below that it
            does not even expect anything.
    """

    def __init__(
        self, tally: Tally, follower: Follower | None, max_tokens: int
    ) -> None:
        self._tally = tally
        self._follower = follower
        self._max_tokens = max_tokens
        self._buffer = b""
        self._shaken = False
        self._begun = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Shake hands."""
        # uvloop's transports are none by inheritance.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.write(
            b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it as lost."""
        self._tally.lost += 1

    def data_received(self, data: bytes) -> None:
        """Take frames apart."""
        buffer = self._buffer + data if self._buffer else data
        if not self._shaken:
            head, found, buffer = buffer.partition(b"\r\n\r\n")
            if not found:
                self._buffer = head
                return
            self._shaken = True
            if self._max_tokens > 0:
                self._ask()
            elif self._max_tokens < 0:
                self._tally.begin()
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

    def _ask(self) -> None:
        create: dict[str, Any] = {
            "type": "response.create",
            "input": "abc",
            "temperature": 0,
            "max_output_tokens": self._max_tokens,
        }
        self._write(TEXT, json.dumps(create).encode())

    def _write(self, kind: int, payload: bytes) -> None:
        # Masked with zeros: a client must mask, and need not hide anything.
        assert self._transport is not None
        size = len(payload)
        head = bytes((0x80 | kind, 0x80 | size)) if size < 126 else b""
        head = head or bytes((0x80 | kind, 0xFE)) + size.to_bytes(2, "big")
        self._transport.write(head + bytes(4) + payload)

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == PING:
            self._write(PONG, payload)
        begin = payload.find(DELTA)
        if begin < 0:
            return
        begin += len(DELTA)
        text = payload[begin : payload.index(b'"', begin)]
        tally = self._tally
        if not self._begun:
            self._begun = True
            tally.begin()
        if self._follower is not None:
            delays_s = self._follower.see(text, time.perf_counter())
            if tally.counting:
                tally.delays_s += delays_s
        if tally.counting:
            tally.tokens += len(text)
            tally.frames += 1


async def main() -> None:
    """Open every stream, count between two lines of input, print what was counted."""
    port, streams, max_tokens, clock_path = (
        int(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
    )
    loop = asyncio.get_running_loop()
    tally = Tally(streams)
    stride = max(1, streams // MEASURED_READERS)
    for number in range(streams):
        follower = None
        if number % stride == 0 and clock_path:
            follower = Follower(StepClock(clock_path))
        reader = Reader(tally, follower, max_tokens)
        await loop.create_connection(lambda reader=reader: reader, "127.0.0.1", port)
    await tally.all_begun.wait()
    tally.lost = 0
    print("begun", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    tally.counting = True
    await loop.run_in_executor(None, sys.stdin.readline)
    tally.counting = False
    result = {
        "tokens": tally.tokens,
        "frames": tally.frames,
        "lost": tally.lost,
        "client_cpu_s": time.process_time(),
        "delays_s": tally.delays_s,
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
