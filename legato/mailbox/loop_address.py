"""The sending half of a mailbox whose state lives in the sender's event loop."""

from threading import get_ident
from time import perf_counter
from typing import Generic, TypeVar

from .loop_lanes import LoopLanes
from .stats import MailboxStats

T = TypeVar("T")


class LoopAddress(Generic[T]):
    """Puts into lanes; an ``Address``.

    Joining what waits already is written out in ``put`` and ``put_nowait``: it wakes
    nobody, and through ``_pass`` it would cost twice as much.
    """

    __slots__ = ("_lanes", "_mailbox")

    def __init__(self, lanes: LoopLanes[T]) -> None:
        self._lanes: LoopLanes[T] = lanes
        self._mailbox = lanes
        lanes.senders += 1

    async def put(self, item: T) -> None:
        """Put a message, waiting for room; cancelled, it has not put it.

        Raises:
            MailboxFull: The mailbox rejects instead of waiting.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        if 0 < len(lanes.items) < lanes.limit and get_ident() == lanes.thread:
            lanes.items.append(item)
            lanes.since_s -= perf_counter()
            return
        if self._pass(item):
            return
        turn = lanes.future()
        lanes.join(turn)
        try:
            await turn
        except BaseException:
            lanes.wake_turns(lanes.leave(turn))
            if lanes.ending():
                lanes.wake()
            raise
        lanes.enter(item)
        lanes.wake()

    def put_nowait(self, item: T) -> None:
        """Put a message at once.

        Raises:
            MailboxFull: No room, or others wait for it.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        if 0 < len(lanes.items) < lanes.limit and get_ident() == lanes.thread:
            lanes.items.append(item)
            lanes.since_s -= perf_counter()
        elif not self._pass(item):
            lanes.rejected += 1
            raise lanes.full()

    def put_urgent(self, item: T) -> None:
        """Put a message past all that are not urgent; it never waits.

        Raises:
            MailboxFull: The urgent lane's own bound is reached.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        lanes.check()
        lanes.append_urgent(item)
        lanes.wake()

    def close(self) -> None:
        """Give this address up; the last one to close finishes the mailbox.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._mailbox
        lanes.check()
        if self._lanes is lanes:
            # From here on this address leads nowhere, at no cost to the open ones.
            self._lanes = LoopLanes(lanes.name, 1)
            self._lanes.finish()
            lanes.senders -= 1
            if not lanes.senders:
                lanes.end()

    def stats(self) -> MailboxStats:
        """Read the mailbox's figures."""
        return self._mailbox.stats()

    def _pass(self, item: T) -> bool:
        """Put a message if that needs no waiting.

        Returns:
            Whether it is put; if not, its sender must wait.
        """
        lanes = self._lanes
        lanes.check()
        if not lanes.accept(item):
            return False
        lanes.wake()
        return True
