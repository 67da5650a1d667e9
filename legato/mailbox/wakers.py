"""Those who sleep until a mailbox of several threads wakes them."""

import asyncio
from collections.abc import Iterable
from threading import Lock

from .loop_lanes import running_loop


class ThreadWaker:
    """A thread that sleeps at a gate of its own, opened once."""

    __slots__ = ("gate",)

    def __init__(self) -> None:
        self.gate = Lock()
        self.gate.acquire()

    def sleep(self, timeout_s: float) -> bool:
        """Wait at the gate, without end if ``timeout_s`` is -1; whether it opened."""
        return self.gate.acquire(timeout=timeout_s)


class LoopWaker:
    """A task that awaits a future of its loop, resolved once."""

    __slots__ = ("future", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self.loop.create_future()


Waker = ThreadWaker | LoopWaker


def wake(wakers: Iterable[Waker]) -> list[Waker]:
    """Wake sleepers from any thread, in order: each loop is interrupted once.

    Returns:
        Those whose loop was closed under them.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[Waker]] = {}
    for waker in wakers:
        if isinstance(waker, LoopWaker):
            by_loop.setdefault(waker.loop, []).append(waker)
        else:
            waker.gate.release()
    lost: list[Waker] = []
    for loop, sleepers in by_loop.items():
        if loop is running_loop():
            resolve(sleepers)
            continue
        try:
            loop.call_soon_threadsafe(resolve, sleepers)
        except RuntimeError:
            lost += sleepers
    return lost


def resolve(wakers: Iterable[Waker]) -> None:
    """Resolve the futures, in their loop, but for tasks that were cancelled."""
    for waker in wakers:
        if isinstance(waker, LoopWaker) and not waker.future.done():
            waker.future.set_result(None)
