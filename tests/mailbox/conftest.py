"""Every kind of mailbox behind one face, so that one suite can hold them all to it."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import msgspec
import pytest

from legato.mailbox import (
    LoopInbox,
    Mailbox,
    Overflow,
    RemoteAddress,
    RemoteInbox,
    ThreadInbox,
)


class Note(msgspec.Struct, frozen=True):
    text: str


def join(older: Note, newer: Note) -> Note:
    return Note(older.text + newer.text)


async def until(condition: Callable[[], bool]) -> None:
    """Let loops and threads run until something holds; fail if it never does."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
        time.sleep(0)  # noqa: ASYNC251 - lets other threads run, and takes no time
    raise AssertionError("it never came to hold")


async def turns(count: int = 40) -> None:
    """Let everything that is due in this loop happen, across sockets too."""
    for _ in range(count):
        await asyncio.sleep(0)


class Rig:
    """A mailbox whose two ends are used from one test, wherever they live."""

    cancels_put = True
    cancels_get = True

    def __init__(self, inbox: Any, address: Any) -> None:
        self.inbox = inbox
        self.address = address

    async def put(self, text: str) -> None:
        await self.address.put(Note(text))

    async def put_nowait(self, text: str) -> None:
        self.address.put_nowait(Note(text))

    async def put_urgent(self, text: str) -> None:
        self.address.put_urgent(Note(text))

    async def get(self) -> str:
        return (await self.inbox.get()).text

    async def drain(self) -> list[str]:
        return [note.text for note in await self.inbox.drain()]

    async def close_address(self) -> None:
        self.address.close()

    async def arrived(self, count: int) -> None:
        """Wait until so many messages are at the consumer's end."""

        def there() -> bool:
            stats = self.inbox.stats()
            return stats.depth + stats.urgent_depth >= count

        await until(there)

    async def queued(self, count: int) -> None:
        """Wait until so many puts wait for room."""
        await until(lambda: self._pending() == count)

    def _pending(self) -> int:
        return self.inbox._lanes.turns.pending


class RemoteRig(Rig):
    def _pending(self) -> int:
        return self.address._credits.turns.pending


class OtherLoopRig(Rig):
    """Senders in a second event loop, in a thread of its own."""

    loop: asyncio.AbstractEventLoop

    async def _there(self, call: Coroutine[Any, Any, None]) -> None:
        here, outcome = asyncio.get_running_loop(), asyncio.Future[asyncio.Task[None]]()
        tasks: list[asyncio.Task[None]] = []

        def start() -> None:
            tasks.append(self.loop.create_task(call))
            tasks[0].add_done_callback(
                lambda task: here.call_soon_threadsafe(outcome.set_result, task)
            )

        self.loop.call_soon_threadsafe(start)
        try:
            await asyncio.shield(outcome)
        except asyncio.CancelledError:  # what became of it there is what counts
            self.loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        (await outcome).result()

    async def put(self, text: str) -> None:
        await self._there(super().put(text))

    async def put_nowait(self, text: str) -> None:
        await self._there(super().put_nowait(text))

    async def put_urgent(self, text: str) -> None:
        await self._there(super().put_urgent(text))


class ThreadSenderRig(Rig):
    """Every put from a plain thread."""

    cancels_put = False

    async def put(self, text: str) -> None:
        await asyncio.to_thread(self.address.put_blocking, Note(text))

    async def put_nowait(self, text: str) -> None:
        await asyncio.to_thread(self.address.put_nowait, Note(text))


class ThreadConsumerRig(Rig):
    """Every get in a plain thread."""

    cancels_get = False

    async def get(self) -> str:
        return (await asyncio.to_thread(self.inbox.get_blocking)).text

    async def drain(self) -> list[str]:
        batch = await asyncio.to_thread(self.inbox.drain_blocking)
        return [note.text for note in batch]


@contextmanager
def loop_thread():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def remote_ends(
    capacity: int,
    overflow: Overflow = Overflow.BACKPRESSURE,
    merge: Any = None,
    **options: Any,
) -> AsyncIterator[tuple[Any, Any]]:
    here, there = socket.socketpair()
    inbox, address = await asyncio.gather(
        RemoteInbox.open(here, "box", capacity, Note, **options),
        RemoteAddress.open(there, "box", overflow=overflow, merge=merge),
    )
    try:
        yield inbox, address
    finally:
        await inbox.aclose()
        await address.aclose()
        assert here.fileno() == there.fileno() == -1


KINDS = {
    "loop": (Mailbox, Rig),
    "loop-inbox": (LoopInbox, Rig),
    "other-loop": (LoopInbox, OtherLoopRig),
    "thread-sender": (LoopInbox, ThreadSenderRig),
    "thread-consumer": (ThreadInbox, ThreadConsumerRig),
    "remote": (None, RemoteRig),
}
CANCEL_PUT = [kind for kind in KINDS if KINDS[kind][1].cancels_put]
CANCEL_GET = [kind for kind in KINDS if KINDS[kind][1].cancels_get]


@asynccontextmanager
async def open_rig(
    kind: str,
    capacity: int,
    overflow: Overflow = Overflow.BACKPRESSURE,
    urgent_capacity: int = 8,
) -> AsyncIterator[Rig]:
    merge = join if overflow is Overflow.COALESCE else None
    make, rig_type = KINDS[kind]
    async with AsyncExitStack() as stack:
        if make is None:
            ends = remote_ends(
                capacity, overflow, merge, urgent_capacity=urgent_capacity
            )
            inbox, address = await stack.enter_async_context(ends)
        else:
            inbox = make(
                "box",
                capacity,
                overflow=overflow,
                merge=merge,
                urgent_capacity=urgent_capacity,
            )
            address = inbox.address()
        rig = rig_type(inbox, address)
        if isinstance(rig, OtherLoopRig):
            rig.loop = stack.enter_context(loop_thread())
        yield rig


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture(params=list(KINDS))
def rig(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens a rig of each kind in turn."""

    def open_one(capacity: int, *args: Any, **options: Any) -> Any:
        return open_rig(request.param, capacity, *args, **options)

    return open_one


@pytest.fixture(params=CANCEL_PUT)
def put_cancelling_rig(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens a rig of each kind whose waiting puts can be cancelled."""
    return lambda capacity: open_rig(request.param, capacity)


@pytest.fixture(params=CANCEL_GET)
def get_cancelling_rig(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens a rig of each kind whose waiting gets can be cancelled."""
    return lambda capacity: open_rig(request.param, capacity)


@pytest.fixture
def ends() -> Callable[..., Any]:
    """Opens the two ends of a mailbox between processes, both in this one."""
    return remote_ends


@pytest.fixture
def note() -> type[Note]:
    return Note


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Coroutine[Any, Any, None]]:
    return until


@pytest.fixture
def let_run() -> Callable[..., Coroutine[Any, Any, None]]:
    return turns
