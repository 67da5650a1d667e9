"""Who reads in the pipeline benchmark: tasks of the engine's loop, or sockets."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from pipeline_device import Follower, PacedDevice, StepClock
from pipeline_floor import BareSocket, Floor, Pace

from legato import Engine, FakeModel, SamplingParams
from legato.protocol.steps import RunnerLimits
from legato.serve import Server, ServeSettings, serve

MEASURED_READERS = 32
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
        opening_s: Longest that it may take until every stream has begun.
        beyond_s: To go on for after that.
        extra: Streams beyond those, which may come later.
    """

    streams: int
    placement: Literal["thread", "process"] = "thread"
    readers: Literal["inproc", "ws"] = "inproc"
    depth: int = 2
    step_ms: float = 5.0
    seconds: float = 5.0
    opening_s: float = 60.0
    beyond_s: float = 0.0
    extra: int = 0

    @property
    def step_s(self) -> float:
        """The step in seconds."""
        return self.step_ms / 1e3

    @property
    def max_context(self) -> int:
        """Room for every token of the whole case."""
        lasts_s = self.opening_s + SETTLING_S + self.seconds + self.beyond_s
        return int(lasts_s / self.step_s)

    def engine(self, clock: str) -> Engine:
        """An engine over a paced device that holds all streams at once."""
        streams = self.streams + self.extra
        limits = RunnerLimits(
            num_slots=streams,
            num_pages=streams * (self.max_context // PAGE_SIZE + 1),
            page_size=PAGE_SIZE,
            max_context=self.max_context,
            max_step_tokens=max(512, streams),
            vocab_size=257,
            page_bytes=0,
        )
        device = partial(PacedDevice, limits, self.step_s, clock)
        return Engine(
            FakeModel(limits=limits, runner=device),
            placement=self.placement,
            num_slots=streams,
            max_step_tokens=limits.max_step_tokens,
            max_requests=streams + 16,
            depth=self.depth,
        )


class Got(msgspec.Struct, kw_only=True):
    """What the readers of a case received while they counted."""

    tokens: int = 0
    frames: int = 0
    lost: int = 0
    client_cpu_s: float = 0.0
    delays_s: list[float] = []


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
        async with asyncio.timeout(case.opening_s):
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
        opening_s: Longest that it may take until every stream has begun.
    """

    def __init__(
        self,
        port: int,
        streams: int,
        max_tokens: int,
        clock: str = "",
        opening_s: float = 60.0,
    ) -> None:
        self._command = (
            sys.executable,
            str(Path(__file__).with_name("pipeline_client.py")),
            *map(str, (port, streams, max_tokens)),
            clock,
        )
        self._opening_s = opening_s
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Window:
        """Start it, and wait until every stream has begun."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, limit=1 << 28
        )
        try:
            async with asyncio.timeout(self._opening_s):
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
    return Client(port, case.streams, case.max_context - 64, clock, case.opening_s)


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


async def floor_sockets(case: Case, seconds: float = 1.0) -> Floor:
    """Measure a token's way from a bare loop onto a socket."""
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
    async with Client(port, case.streams, 0) as window:
        window.open()
        began_s = time.process_time()
        before = sum(socket.number for socket in sockets)
        await asyncio.sleep(seconds)
        spent_s = time.process_time() - began_s
        sent = sum(socket.number for socket in sockets) - before
    await asyncio.to_thread(pace.stop)
    server.close()
    return Floor(1e6 * spent_s / max(1, sent))
