"""The sending half of a mailbox that several threads share."""

from typing import Generic, TypeVar

from ..protocol.errors import MailboxMisused
from .loop_lanes import running_loop
from .shared_lanes import SharedLanes
from .stats import MailboxStats
from .wakers import LoopWaker, ThreadWaker

T = TypeVar("T")


class SharedAddress(Generic[T]):
    """An ``Address`` for tasks of any loop, and for plain threads as well."""

    __slots__ = ("_lanes", "_mailbox")

    def __init__(self, lanes: SharedLanes[T]) -> None:
        self._lanes: SharedLanes[T] = lanes
        self._mailbox = lanes
        with lanes.lock:
            lanes.senders += 1

    async def put(self, item: T) -> None:
        """Put a message, waiting for room; cancelled, it has not put it.

        Raises:
            MailboxFull: The mailbox rejects instead of waiting.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        lanes = self._lanes
        turn = lanes.offer(item, LoopWaker)
        if turn is None:
            return
        assert isinstance(turn, LoopWaker)
        try:
            await turn.future
        except BaseException:
            lanes.give_up(turn)
            raise
        lanes.admit(item)

    def put_blocking(self, item: T, timeout_s: float | None = None) -> None:
        """Put a message, blocking this thread until there is room.

        Raises:
            TimeoutError: There was none in time; the message is not put.
            MailboxFull: The mailbox rejects instead of waiting.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: An event loop runs in this thread, and would stand still.
        """
        lanes = self._lanes
        if running_loop() is not None:
            raise blocking(lanes.name, "put_blocking", "await put")
        turn = lanes.offer(item, ThreadWaker)
        if turn is None:
            return
        assert isinstance(turn, ThreadWaker)
        try:
            opened = turn.sleep(-1 if timeout_s is None else max(timeout_s, 0.0))
        except BaseException:
            lanes.give_up(turn)
            raise
        if not opened and not lanes.granted(turn):
            lanes.give_up(turn)
            raise TimeoutError(f"mailbox {lanes.name!r}: no room within {timeout_s} s")
        lanes.admit(item)

    def put_nowait(self, item: T) -> None:
        """Put a message at once.

        Raises:
            MailboxFull: No room, or others wait for it.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        self._lanes.offer(item, None)

    def put_urgent(self, item: T) -> None:
        """Put a message past all that are not urgent; it never waits.

        Raises:
            MailboxFull: The urgent lane's own bound is reached.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        self._lanes.offer_urgent(item)

    def close(self) -> None:
        """Give this address up; the last one to close finishes the mailbox."""
        lanes = self._mailbox
        if self._lanes is not lanes:
            return
        # From here on this address leads nowhere, at no cost to the open ones.
        self._lanes = SharedLanes(lanes.name, 1)
        self._lanes.finish()
        with lanes.lock:
            lanes.senders -= 1
            last = not lanes.senders
        if last:
            lanes.end()

    def stats(self) -> MailboxStats:
        """Read the mailbox's figures."""
        with self._mailbox.lock:
            return self._mailbox.stats()


def blocking(name: str, called: str, instead: str) -> MailboxMisused:
    """What meets a blocking call in a thread whose event loop it would stop."""
    return MailboxMisused(
        f"mailbox {name!r}: {called} would block the event loop that runs in this "
        f"thread; use {instead}"
    )
