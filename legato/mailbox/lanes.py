"""The state of one mailbox and the rules it keeps, whoever waits and however.

Pure and synchronous: nothing here knows loops, threads or locks. The shells around it
(in a loop, across threads, across processes) wait, wake and lock.

    urgent [ . . . ]      taken first, never waits, its own bound
    items  [ . . . . ]    at most ``capacity``
    turns  ( . . )        senders that wait for room; while there are any, none passes

``limit`` folds "open", "nobody waits" and "room" into one comparison on the fast path:
a put may append while ``len(items) < limit``.
"""

import enum
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

from ..protocol.errors import (
    Closed,
    InvalidSetting,
    MailboxBroken,
    MailboxClosed,
    MailboxEmpty,
    MailboxFull,
)
from .overflow import Overflow
from .stats import MailboxStats
from .turns import Turns

T = TypeVar("T")
W = TypeVar("W")

URGENT_CAPACITY = 1024


class State(enum.Enum):
    """How a mailbox stands; it only ever leaves OPEN."""

    OPEN = enum.auto()
    FINISHED = enum.auto()  # the senders are done; what waits is still delivered
    CLOSED = enum.auto()  # the consumer takes nothing more in
    BROKEN = enum.auto()  # the senders' process is gone


class Lanes(Generic[T, W]):
    """Two bounded lanes, the turns before them, and the counters.

    Args:
        name: For errors and metrics.
        capacity: Most messages that wait.
        overflow: What happens to one more.
        merge: ``merge(older, newer)``; with COALESCE, and only then.
        urgent_capacity: Most urgent messages that wait.

    Raises:
        InvalidSetting: A bound below 1, or merge and overflow that do not match.
    """

    __slots__ = (
        "capacity",
        "closing_cause",
        "coalesced",
        "got",
        "high_water",
        "items",
        "limit",
        "merge",
        "name",
        "overflow",
        "rejected",
        "senders",
        "since_s",
        "state",
        "turns",
        "urgent",
        "urgent_capacity",
    )

    def __init__(
        self,
        name: str,
        capacity: int,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
        urgent_capacity: int = URGENT_CAPACITY,
    ) -> None:
        for bound, what in ((capacity, "capacity"), (urgent_capacity, "urgent lane")):
            if bound < 1:
                raise InvalidSetting(
                    f"mailbox {name!r}: its {what} must be at least 1, got {bound}"
                )
        if (merge is None) is (overflow is Overflow.COALESCE):
            raise InvalidSetting(
                f"mailbox {name!r}: pass merge with Overflow.COALESCE, and only then"
            )
        self.name = name
        self.capacity = capacity
        self.overflow = overflow
        self.merge = merge
        self.urgent_capacity = urgent_capacity
        self.items: deque[T] = deque()
        self.urgent: deque[T] = deque()
        self.turns: Turns[W] = Turns()
        self.limit = capacity
        self.state = State.OPEN
        self.closing_cause: BaseException | None = None
        self.senders = 0
        self.high_water = self.got = self.rejected = self.coalesced = 0
        # Times of takes less times of puts: with the clock times what still waits, it
        # is the time waited, for one reading and one addition per put.
        self.since_s = 0.0

    # The sending side.

    def accept(self, item: T) -> bool:
        """Put a message if that needs no waiting; else as ``settle``.

        Raises:
            MailboxFull, MailboxClosed, MailboxBroken: As for ``settle``.
        """
        if len(self.items) >= self.limit:
            return self.settle(item)
        self.items.append(item)
        self.since_s -= perf_counter()
        return True

    def settle(self, item: T) -> bool:
        """Decide on a message for which the fast path had no room.

        Returns:
            Whether it is settled; if not, its sender takes a turn.

        Raises:
            MailboxFull: The mailbox rejects.
            MailboxClosed: The senders are done.
            MailboxBroken: The consumer is gone.
        """
        if self.state is not State.OPEN:
            raise self.gone()
        if self.merge is not None:
            self.items[-1] = self.merge(self.items[-1], item)
            self.coalesced += 1
            return True
        if self.overflow is Overflow.REJECT:
            self.rejected += 1
            raise self.full()
        return False

    def append_urgent(self, item: T) -> None:
        """Put a message past all that are not urgent.

        Raises:
            MailboxFull: The lane's own bound is reached.
            MailboxClosed: The senders are done.
            MailboxBroken: The consumer is gone.
        """
        if self.state is not State.OPEN:
            raise self.gone()
        if len(self.urgent) >= self.urgent_capacity:
            self.rejected += 1
            raise MailboxFull(
                f"mailbox {self.name!r}: {self.urgent_capacity} urgent messages wait"
            )
        self.urgent.append(item)
        self.since_s -= perf_counter()

    def join(self, turn: W) -> None:
        """Queue a sender for room; from now on no put passes it."""
        self.turns.join(turn)
        self.limit = 0

    def enter(self, item: T) -> None:
        """Append the message of a sender whose turn was granted.

        Raises:
            MailboxBroken: The consumer closed instead.
        """
        if self.state is State.CLOSED:
            raise self.gone()
        turns = self.turns
        turns.granted -= 1
        self.items.append(item)
        self.since_s -= perf_counter()
        if not (turns.granted or turns.waiting):
            self.reopen()

    def leave(self, turn: W) -> list[W]:
        """Give a turn up; returns the turns granted instead."""
        if self.state is State.CLOSED:
            return []
        self.turns.leave(turn)
        woken = self.grant()
        self.reopen()
        return woken

    def reopen(self) -> None:
        """Let puts pass at once again, if nobody waits before them."""
        if self.state is State.OPEN and not self.turns.pending:
            self.limit = self.capacity

    def full(self) -> MailboxFull:
        """The answer when there is no room."""
        return MailboxFull(
            f"mailbox {self.name!r} is full: {len(self.items)} of {self.capacity} "
            f"messages wait, and {self.turns.pending} senders"
        )

    def gone(self) -> Closed:
        """What a sender meets once the mailbox is not open."""
        if self.state is State.FINISHED:
            return MailboxClosed(f"mailbox {self.name!r}: its sending side finished")
        return MailboxBroken(f"mailbox {self.name!r}: its consumer is gone")

    # The consuming side.

    def take(self) -> T:
        """Take the next message; there must be one.

        Raises:
            MailboxEmpty: There is none.
        """
        if self.urgent:
            item = self.urgent.popleft()
        elif depth := len(self.items):
            if depth > self.high_water:
                self.high_water = depth
            item = self.items.popleft()
        else:
            raise MailboxEmpty(f"mailbox {self.name!r} is empty")
        self.got += 1
        self.since_s += perf_counter()
        return item

    def take_all(self) -> list[T]:
        """Take everything that waits, urgent first; maybe nothing."""
        items = self.items
        if len(items) > self.high_water:
            self.high_water = len(items)
        if self.urgent:
            batch = [*self.urgent, *items]
            self.urgent.clear()
        else:
            batch = list(items)
        items.clear()
        self.got += len(batch)
        self.since_s += len(batch) * perf_counter()
        return batch

    def grant(self) -> list[W]:
        """Grant turns for the room there is; returns those to wake."""
        return self.turns.grant(self.capacity - len(self.items))

    def ending(self) -> Closed | None:
        """What the consumer of an empty mailbox meets, if nothing more can come."""
        if self.state is State.OPEN or self.items or self.urgent:
            return None
        if self.state is State.BROKEN:
            error = MailboxBroken(f"mailbox {self.name!r}: its sender is gone")
            error.__cause__ = self.closing_cause
            return error
        if self.state is State.FINISHED and self.turns.pending:
            return None
        return MailboxClosed(f"mailbox {self.name!r} is closed, and drained")

    # Either side.

    def finish(self) -> None:
        """End the sending side: no put any more, but those that wait still enter."""
        if self.state is State.OPEN:
            self.state = State.FINISHED
            self.limit = 0

    def close(self) -> list[W]:
        """End the consuming side; returns every turn, to be woken and refused."""
        if self.state is State.CLOSED:
            return []
        self.state = State.CLOSED
        self.limit = 0
        return self.turns.clear()

    def stats(self) -> MailboxStats:
        """Read the counters."""
        depth, urgent = len(self.items), len(self.urgent)
        if depth > self.high_water:
            self.high_water = depth
        return MailboxStats(
            name=self.name,
            depth=depth,
            capacity=self.capacity,
            high_water=self.high_water,
            put=self.got + depth + urgent + self.coalesced,
            got=self.got,
            rejected=self.rejected,
            coalesced=self.coalesced,
            waited_s=max(self.since_s + (depth + urgent) * perf_counter(), 0.0),
            urgent_depth=urgent,
        )
