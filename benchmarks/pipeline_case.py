"""One case of the pipeline benchmark, in a process of its own."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import psutil
from pipeline_device import Follower, PacedDevice, StepClock
from pipeline_floor import BareSocket, Pace, floor_inproc

from legato import Engine, FakeModel, SamplingParams
from legato.protocol.core import CoreStats
from legato.protocol.steps import RunnerLimits
from legato.serve import Server, ServeSettings, serve

MEASURED_READERS = 32
OPENING_S = 30.0
SETTLING_S = 1.0
PAGE_SIZE = 16


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure.

    Args:
        streams: Read at once.
        placement: Of the core.
        readers: Tasks of the engine's own loop, or sockets of another process.
        depth: Plans under way.
        step_ms: Of the device.
        seconds: To measure for.
    """

    streams: int
    placement: Literal["thread", "process"] = "thread"
    readers: Literal["inproc", "ws"] = "inproc"
    depth: int = 2
    step_ms: float = 5.0
    seconds: float = 5.0

    @property
    def step_s(self) -> float:
        """The step in seconds."""
        return self.step_ms / 1e3

    @property
    def max_context(self) -> int:
        """Room for every token of the whole case."""
        return int((OPENING_S + SETTLING_S + self.seconds) / self.step_s)

    def engine(self, clock: str) -> Engine:
        """An engine over a paced device that holds all streams at once."""
        limits = RunnerLimits(
            num_slots=self.streams,
            num_pages=self.streams * (self.max_context // PAGE_SIZE + 1),
            page_size=PAGE_SIZE,
            max_context=self.max_context,
            max_step_tokens=max(512, self.streams),
            vocab_size=257,
            page_bytes=0,
        )
        device = partial(PacedDevice, limits, self.step_s, clock)
        return Engine(
            FakeModel(limits=limits, runner=device),
            placement=self.placement,
            num_slots=self.streams,
            max_step_tokens=limits.max_step_tokens,
            max_requests=self.streams + 16,
            depth=self.depth,
        )


class Got(msgspec.Struct, kw_only=True):
    """What the readers of a case received while they counted."""

    tokens: int = 0
    frames: int = 0
    lost: int = 0
    client_cpu_s: float = 0.0
    delays_s: list[float] = []


Measure = Callable[[Callable[[], Awaitable[None]]], Awaitable[Got]]


async def run_case(case: Case) -> dict[str, Any]:
    """Measure, and return the row."""
    with tempfile.TemporaryDirectory() as folder:
        clock = str(Path(folder) / "clock")
        StepClock(clock)
        engine = case.engine(clock)
        if case.readers == "inproc":
            async with engine:
                row = await measure(case, engine, read_inproc(case, engine, clock))
                floor_us = await floor_inproc(case.streams, case.step_s, 1.0)
        else:
            async with served(engine, case) as port:
                row = await measure(case, engine, read_sockets(case, port, clock))
            floor_us = await floor_sockets(case)
        return row | {"floor_us_per_token": round(floor_us, 2)}


async def measure(case: Case, engine: Engine, reading: "Reading") -> dict[str, Any]:
    """Open all streams, let them settle, and read every gauge around a window."""
    core = getattr(engine.core, "pid", None)
    processes = [psutil.Process(), *([psutil.Process(core)] if core else [])]
    empty_bytes = memory(processes)
    async with reading as window:
        await asyncio.sleep(SETTLING_S)
        full_bytes = memory(processes)
        window.open()
        before, began = engine.stats().core, cpu(processes)
        began_s = time.perf_counter()
        await asyncio.sleep(case.seconds)
        spent = [a - b for a, b in zip(cpu(processes), began, strict=True)]
        seconds = time.perf_counter() - began_s
        after, stats = engine.stats().core, engine.stats()
        got = await window.close()
    delays_ms = sorted(1e3 * delay_s for delay_s in got.delays_s)
    return msgspec.to_builtins(case) | {
        "bubble_share": round(bubbles(before, after), 5),
        "host_us_per_token": round(1e6 * sum(spent) / max(1, got.tokens), 2),
        "core_us_per_token": round(1e6 * sum(spent[1:]) / max(1, got.tokens), 2),
        "tokens_per_s": round(got.tokens / seconds),
        "paced_tokens_per_s": round(case.streams / case.step_s),
        "deliver_ms_p50": round(percentile(delays_ms, 0.5), 3),
        "deliver_ms_p99": round(percentile(delays_ms, 0.99), 3),
        "kib_per_stream": round((full_bytes - empty_bytes) / case.streams / 1024, 1),
        "cpu_share": round(sum(spent) / seconds, 3),
        "plan_us_per_step": round(plan_us(before, after), 1),
        "tokens_per_frame": round(got.tokens / got.frames, 2) if got.frames else 1.0,
        "lost": got.lost,
        "itl_ms_p99": round(stats.itl_ms_p99, 2),
    }


def bubbles(before: CoreStats, after: CoreStats) -> float:
    """Share of the device's time lost between two readings."""
    idle_s = after.idle_s - before.idle_s
    return idle_s / max(1e-9, idle_s + after.busy_s - before.busy_s)


def plan_us(before: CoreStats, after: CoreStats) -> float:
    """Host time of planning for each step between two readings."""
    steps = max(1, after.steps - before.steps)
    return 1e6 * (after.plan_s - before.plan_s) / steps


def percentile(ordered: list[float], share: float) -> float:
    """The value below which a share of all lie; 0 of nothing."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def memory(processes: list[psutil.Process]) -> int:
    """Resident bytes of some processes."""
    return sum(process.memory_info().rss for process in processes)


def cpu(processes: list[psutil.Process]) -> list[float]:
    """CPU seconds of each process."""
    times = [process.cpu_times() for process in processes]
    return [spent.user + spent.system for spent in times]


class Window:
    """When the readers count.

    Args:
        on_open: Called as counting begins.
        on_close: Returns what was counted.
    """

    def __init__(
        self, on_open: Callable[[], None], on_close: Callable[[], Awaitable[Got]]
    ) -> None:
        self.open = on_open
        self.close = on_close


Reading = contextlib.AbstractAsyncContextManager[Window]


@asynccontextmanager
async def read_inproc(
    case: Case, engine: Engine, clock_path: str
) -> AsyncGenerator[Window]:
    """Readers in tasks of this loop."""
    got = Got()
    counting = False
    missing = case.streams
    begun = asyncio.Event()
    stride = max(1, case.streams // MEASURED_READERS)
    params = SamplingParams(
        temperature=0, max_tokens=case.max_context - 16, ignore_eos=True
    )

    async def read(number: int) -> None:
        nonlocal missing
        follower = Follower(StepClock(clock_path)) if number % stride == 0 else None
        prompt = (97 + number % 26, *b"abcdefg")
        first = True
        async with engine.stream(prompt, params) as stream:
            async for delta in stream:
                if follower is not None:
                    delays_s = follower.see(delta.token_ids, time.perf_counter())
                    if counting:
                        got.delays_s += delays_s
                if counting:
                    got.tokens += len(delta.token_ids)
                elif first:
                    first = False
                    missing -= 1
                    if not missing:
                        begun.set()

    def start() -> None:
        nonlocal counting
        counting = True

    async def finish() -> Got:
        nonlocal counting
        counting = False
        return got

    tasks = [asyncio.create_task(read(number)) for number in range(case.streams)]
    try:
        async with asyncio.timeout(OPENING_S):
            await begun.wait()
        yield Window(start, finish)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Client:
    """The process that holds all sockets.

    Args:
        port: Of the server on this machine.
        streams: Sockets, each with one stream.
        max_tokens: Of each answer; 0 asks for none.
        clock: The file of the shared clock, or "".
    """

    def __init__(self, port: int, streams: int, max_tokens: int, clock: str) -> None:
        self._command = (
            sys.executable,
            str(Path(__file__).with_name("pipeline_client.py")),
            *map(str, (port, streams, max_tokens)),
            clock,
        )
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Window:
        """Start it, and wait until every stream has begun."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, limit=1 << 28
        )
        try:
            async with asyncio.timeout(OPENING_S):
                begun = await self._line()
        except TimeoutError:
            begun = b""
        if begun != b"begun\n":
            await self.__aexit__()
            raise RuntimeError("the client could not open all its streams")
        return Window(self._say, self._finish)

    async def __aexit__(self, *exc: object) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _say(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def _finish(self) -> Got:
        self._say()
        return msgspec.json.decode(await self._line(), type=Got)

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


def read_sockets(case: Case, port: int, clock: str) -> Reading:
    """Readers in another process, each behind a WebSocket."""
    return Client(port, case.streams, case.max_context - 64, clock)


@asynccontextmanager
async def served(engine: Engine, case: Case) -> AsyncGenerator[int]:
    """The engine behind the real server on a free port."""
    ready: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    ports: list[int] = []
    settings = ServeSettings(port=0, drain_s=0.0, backlog=case.streams + 16)
    serving = asyncio.create_task(
        serve(
            engine,
            settings,
            on_listening=lambda url: ports.append(int(url.rpartition(":")[2])),
            on_ready=ready.set_result,
        )
    )
    server = await ready
    try:
        yield ports[0]
    finally:
        server.stop(at_once=True)
        await serving


async def floor_sockets(case: Case, seconds: float = 1.0) -> float:
    """CPU microseconds a token takes from a bare loop onto a socket."""
    loop = asyncio.get_running_loop()
    sockets: list[BareSocket] = []
    server = await loop.create_server(
        lambda: BareSocket(sockets), "127.0.0.1", 0, backlog=case.streams + 16
    )
    port = server.sockets[0].getsockname()[1]

    def step() -> None:
        for socket in sockets:
            socket.send()

    pace = Pace(case.step_s, step)
    async with Client(port, case.streams, 0, "") as window:
        window.open()
        began_s = time.process_time()
        before = sum(socket.number for socket in sockets)
        await asyncio.sleep(seconds)
        spent_s = time.process_time() - began_s
        sent = sum(socket.number for socket in sockets) - before
    await asyncio.to_thread(pace.stop)
    server.close()
    return 1e6 * spent_s / max(1, sent)


def main() -> None:
    """Read a case from the command line, print its row."""
    import uvloop

    case = msgspec.json.decode(sys.argv[1], type=Case)
    row = uvloop.run(run_case(case))
    print(json.dumps(row), flush=True)
    os._exit(0)  # readers cut off in the middle have nothing more to say


if __name__ == "__main__":
    main()
