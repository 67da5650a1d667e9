"""The mailbox from loops and threads into a plain thread."""

from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from ..protocol.errors import MailboxEmpty
from .lanes import URGENT_CAPACITY, State
from .loop_lanes import running_loop
from .overflow import Overflow
from .shared_address import SharedAddress, blocking
from .shared_lanes import SharedLanes
from .stats import MailboxStats
from .wakers import ThreadWaker

T = TypeVar("T")


class ThreadInbox(Generic[T]):
    """A bounded mailbox whose consumer is a thread, and whose senders are anywhere.

    Arguments and errors as for ``Mailbox``; ``merge`` runs in the sender's thread,
    under the mailbox's lock. The thread may change; only one may wait at a time.
    """

    __slots__ = ("_lanes",)

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

    def get_blocking(self, timeout_s: float | None = None) -> T:
        """Take the next message, blocking this thread until there is one.

        Raises:
            TimeoutError: There was none in time.
            MailboxClosed: Closed or finished, and drained.
            MailboxMisused: An event loop runs in this thread, or another thread waits.
        """
        return self._collect(False, timeout_s)[0]

    def drain_blocking(self, timeout_s: float | None = None) -> list[T]:
        """Take everything that waits, blocking until there is at least one message.

        Raises:
            TimeoutError: There was none in time.
            MailboxClosed: Closed or finished, and drained.
            MailboxMisused: An event loop runs in this thread, or another thread waits.
        """
        return self._collect(True, timeout_s)

    def get_nowait(self) -> T:
        """Take the next message at once.

        Raises:
            MailboxEmpty: Nothing waits, but more can come.
            MailboxClosed: Closed or finished, and drained.
        """
        for item in self._lanes.collect(False):
            return item
        raise MailboxEmpty(f"mailbox {self.name!r} is empty")

    def drain_nowait(self) -> list[T]:
        """Take everything that waits, maybe nothing."""
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

    def _collect(self, every: bool, timeout_s: float | None) -> list[T]:
        lanes = self._lanes
        if running_loop() is not None:
            raise blocking(lanes.name, "a blocking get", "a LoopInbox there")
        deadline_s = None if timeout_s is None else monotonic() + timeout_s
        while not (batch := lanes.collect(every)):
            rest_s = -1.0 if deadline_s is None else deadline_s - monotonic()
            if deadline_s is not None and rest_s <= 0:
                raise TimeoutError(
                    f"mailbox {lanes.name!r}: nothing came within {timeout_s} s"
                )
            waker = ThreadWaker()
            if batch := lanes.collect(every, waker):
                break
            try:
                waker.sleep(rest_s)
            finally:
                lanes.forget(waker)
        return batch
