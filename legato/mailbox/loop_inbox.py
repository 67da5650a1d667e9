"""The mailbox from other threads and loops into an event loop."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from ..protocol.errors import MailboxEmpty, MailboxMisused
from .lanes import URGENT_CAPACITY, State
from .loop_lanes import running_loop
from .overflow import Overflow
from .shared_address import SharedAddress
from .shared_lanes import SharedLanes
from .stats import MailboxStats
from .wakers import LoopWaker

T = TypeVar("T")

# Threads can fill a mailbox as fast as its consumer empties it, which then would never
# wait: after so many messages without a wait it lets its loop run once.
FAIR_MESSAGES = 256


class LoopInbox(Generic[T]):
    """A bounded mailbox whose consumer is a task, and whose senders are anywhere.

    It binds to the loop that first takes from it. Arguments and errors as for
    ``Mailbox``; ``merge`` runs in the sender's thread, under the mailbox's lock.
    """

    __slots__ = ("_lanes", "_loop", "_unwaited")

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
        urgent_capacity: int = URGENT_CAPACITY,
    ) -> None:
        self._lanes = SharedLanes(name, capacity, overflow, merge, urgent_capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unwaited = 0

    @property
    def name(self) -> str:
        """The mailbox's name, for errors and metrics."""
        return self._lanes.name

    def address(self) -> SharedAddress[T]:
        """Open one more address for a sender; from any thread.

        Raises:
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        if self._lanes.state is not State.OPEN:
            raise self._lanes.gone()
        return SharedAddress(self._lanes)

    async def get(self) -> T:
        """Take the next message; see ``Inbox.get``.

        Raises:
            MailboxClosed: Closed or finished, and drained.
            MailboxMisused: Another loop's mailbox, or a second consumer.
        """
        return (await self._collect(False))[0]

    async def drain(self) -> list[T]:
        """Take everything that waits, at least one message; see ``Inbox.drain``.

        Raises:
            MailboxClosed: Closed or finished, and drained.
            MailboxMisused: Another loop's mailbox, or a second consumer.
        """
        return await self._collect(True)

    def get_nowait(self) -> T:
        """Take the next message at once; see ``Inbox.get_nowait``.

        Raises:
            MailboxEmpty: Nothing waits, but more can come.
            MailboxClosed: Closed or finished, and drained.
            MailboxMisused: Another loop's mailbox.
        """
        self._check()
        for item in self._lanes.collect(False):
            return item
        raise MailboxEmpty(f"mailbox {self.name!r} is empty")

    def drain_nowait(self) -> list[T]:
        """Take everything that waits, maybe nothing.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        self._check()
        return self._lanes.sweep()

    def finish(self) -> None:
        """End the sending side; what waits is still delivered. From any thread."""
        self._lanes.end()

    def close(self) -> None:
        """Refuse all further puts; what waits can still be taken. From any thread."""
        self._lanes.shut()

    def stats(self) -> MailboxStats:
        """Read the figures, from any thread."""
        with self._lanes.lock:
            return self._lanes.stats()

    async def _collect(self, every: bool) -> list[T]:
        self._check()
        if self._unwaited >= FAIR_MESSAGES:
            self._unwaited = 0
            await asyncio.sleep(0)
        lanes = self._lanes
        while not (batch := lanes.collect(every)):
            self._unwaited = 0
            waker = LoopWaker()
            if batch := lanes.collect(every, waker):
                break
            try:
                await waker.future
            finally:
                lanes.forget(waker)
        self._unwaited += len(batch)
        return batch

    def _check(self) -> None:
        running = running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise MailboxMisused(
                f"mailbox {self.name!r} is taken from in the event loop that did so "
                "first, and in no other; to take in a plain thread, use a ThreadInbox"
            )
