"""The floor of the pipeline benchmark: a bare loop that does only the same sends.

No scheduler, no tokenizer, no text: a thread keeps the pace, wakes the loop once a
step, and the loop hands each of its readers one token. For sockets, the same bytes in
the same frames to the same client.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

FRAME = (
    b'{"type":"response.output_text.delta","item_id":"msg_%032d","output_index":0,'
    b'"content_index":0,"delta":"A","logprobs":[],"sequence_number":%d}'
)


@dataclass
class Floor:
    """What a bare loop does.

    Args:
        us_per_token: CPU time.
        delays_ms: From the end of a step until each reader has its token; of readers
            in the loop.
    """

    us_per_token: float = 0.0
    delays_ms: list[float] = field(default_factory=list[float])


class Pace:
    """Wakes the running loop once a step, from a thread.

    Args:
        step_s: Seconds between two.
        on_step: Called in the loop.
    """

    def __init__(self, step_s: float, on_step: Callable[[], None]) -> None:
        self._step_s = step_s
        self._on_step = on_step
        self._loop = asyncio.get_running_loop()
        self.ended_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        due_s = time.perf_counter()
        while not self._stopped.is_set():
            due_s = max(due_s + self._step_s, time.perf_counter())
            time.sleep(max(0.0, due_s - time.perf_counter()))
            self.ended_s = due_s
            self._loop.call_soon_threadsafe(self._on_step)


async def floor_inproc(streams: int, step_s: float, seconds: float) -> Floor:
    """Measure a token's way from the loop to a task that awaits it."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[int]] = [loop.create_future() for _ in range(streams)]
    tokens = 0
    floor = Floor()

    async def read(number: int) -> None:
        nonlocal tokens
        while True:
            await waiting[number]
            waiting[number] = loop.create_future()
            tokens += 1
            if number % 8 == 0:
                floor.delays_ms.append(1e3 * (time.perf_counter() - pace.ended_s))

    def step() -> None:
        for future in waiting:
            if not future.done():
                future.set_result(1)

    readers = [asyncio.create_task(read(number)) for number in range(streams)]
    pace = Pace(step_s, step)
    await asyncio.sleep(0.2)
    began_s, before = time.process_time(), tokens
    await asyncio.sleep(seconds)
    spent_s, got = time.process_time() - began_s, tokens - before
    await asyncio.to_thread(pace.stop)
    for reader in readers:
        reader.cancel()
    await asyncio.wait(readers)
    floor.us_per_token = 1e6 * spent_s / max(1, got)
    return floor


class BareSocket(asyncio.Protocol):
    """A socket that shakes hands and then only writes.

    Args:
        opened: Where it lists itself.
    """

    def __init__(self, opened: "list[BareSocket]") -> None:
        self._opened = opened
        self.transport: asyncio.Transport | None = None
        self.number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports are none by inheritance.
        transport = cast(asyncio.Transport, transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the handshake; whatever comes later is not read."""
        if data.startswith(b"GET"):
            assert self.transport is not None
            self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            self._opened.append(self)

    def send(self) -> None:
        """Send one token."""
        assert self.transport is not None
        if self.transport.is_closing():
            return
        payload = FRAME % (7, self.number)
        self.number += 1
        head = b"\x81\x7e" + len(payload).to_bytes(2, "big")
        self.transport.write(head + payload)
