"""What a sender may still send to a mailbox in another process; no I/O.

The counterpart of ``Lanes`` where the messages themselves wait elsewhere. Under
COALESCE one place of the capacity is kept on this side: what waits here takes the later
messages in until there is credit. Where it would grow too long for one message it takes
more places than that one, since a put must neither wait nor lose anything.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

import msgspec

from ..protocol.errors import (
    Closed,
    InvalidSetting,
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
)
from .backlog import Backlog
from .frames import Credit, Hello, MalformedFrame
from .lanes import State
from .overflow import Overflow
from .stats import MailboxStats
from .turns import Turns

T = TypeVar("T")


class Credits(Generic[T]):
    """The sending end's counters and turns.

    Args:
        name: For errors and metrics.
        overflow: What happens when the other end's capacity is used up.
        merge: ``merge(older, newer)``, associative; with COALESCE, and only then.

    Raises:
        InvalidSetting: Merge and overflow that do not match.
    """

    def __init__(
        self, name: str, overflow: Overflow, merge: Callable[[T, T], T] | None
    ) -> None:
        if (merge is None) is (overflow is Overflow.COALESCE):
            raise InvalidSetting(
                f"mailbox {name!r}: pass merge with Overflow.COALESCE, and only then"
            )
        self.name = name
        self.overflow = overflow
        self.merge = merge
        self.hello = Hello(0, 0, 0)
        self.encode: Callable[[T], bytes] = msgspec.msgpack.Encoder().encode
        self.held: Backlog[T] = Backlog(merge, self.encode)
        self.turns: Turns[asyncio.Future[None]] = Turns()
        self.state = State.OPEN
        self.closed = False
        self.most = self.ordinary = self.urgent = 0
        self.put = self.rejected = self.coalesced = self.high_water = 0
        self.since_s = 0.0

    def begin(self, hello: Hello) -> None:
        """Learn what the consumer's end can hold.

        Raises:
            InvalidSetting: COALESCE where the capacity leaves no place on this side.
        """
        if self.merge is not None and hello.capacity < 2:
            raise InvalidSetting(
                f"mailbox {self.name!r}: between processes COALESCE needs a capacity "
                "of 2 or more, one on each side"
            )
        self.hello = hello
        self.most = self.ordinary = hello.capacity - (self.merge is not None)
        self.urgent = hello.urgent_capacity
        self.held.begin(hello.max_message_bytes)

    def check_open(self) -> None:
        """Refuse a put once the mailbox takes nothing more.

        Raises:
            MailboxClosed: This end closed.
            MailboxBroken: The other end is gone.
        """
        if self.state is not State.OPEN:
            raise self.gone()

    def gone(self) -> Closed:
        """What a sender meets once the mailbox is not open."""
        if self.closed:
            return MailboxClosed(f"mailbox {self.name!r}: this address was closed")
        return MailboxBroken(f"mailbox {self.name!r}: its consumer is gone")

    @property
    def passes(self) -> bool:
        """Whether a message may be sent now, past nobody who waits."""
        return self.ordinary > 0 and not self.turns.pending and not self.held

    def spend(self) -> None:
        """Use the credit for one message that is sent."""
        self.ordinary -= 1
        self.put += 1
        self.since_s -= perf_counter()
        self.high_water = max(self.high_water, self.depth)

    def spend_urgent(self) -> None:
        """Use the credit for one urgent message.

        Raises:
            MailboxFull: There is none.
        """
        if not self.urgent:
            raise self.full()
        self.urgent -= 1
        self.put += 1
        self.since_s -= perf_counter()

    def hold(self, item: T, size: int) -> None:
        """Keep a message until there is credit, merged with what waits already.

        Args:
            item: Not to be changed from here on.
            size: Of its encoding, in bytes.
        """
        before = len(self.held)
        self.held.add(item, size)
        self.coalesced += 1
        self._split(len(self.held) - before)
        self.put += 1
        self.high_water = max(self.high_water, self.depth)

    def release(self) -> bytes:
        """Use a credit for the oldest held back; it was counted as put before."""
        before = len(self.held)
        body = self.held.pop()
        self.ordinary -= 1
        self._split(len(self.held) - before + 1)
        return body

    def _split(self, count: int) -> None:
        """Count so many messages more as waiting, which were thought merged."""
        self.coalesced -= count
        self.since_s -= count * perf_counter()

    def earn(self, credit: Credit) -> None:
        """Add credit.

        Raises:
            MalformedFrame: More than was spent.
        """
        self.ordinary += credit.ordinary
        self.urgent += credit.urgent
        if self.ordinary > self.most or self.urgent > self.hello.urgent_capacity:
            raise MalformedFrame("credit for more than was sent")
        self.since_s += (credit.ordinary + credit.urgent) * perf_counter()

    def settle(self) -> None:
        """Count all that was sent as taken: the other end has it, and said goodbye."""
        ordinary = self.most - self.ordinary
        self.earn(Credit(ordinary, self.hello.urgent_capacity - self.urgent))

    @property
    def depth(self) -> int:
        """Messages sent and not yet taken, as far as is known here, and the held."""
        return self.most - self.ordinary + len(self.held)

    def full(self) -> MailboxFull:
        """The answer when there is no credit; it is counted."""
        self.rejected += 1
        return MailboxFull(
            f"mailbox {self.name!r} is full: {self.depth} of {self.hello.capacity} "
            f"messages wait, and {self.turns.pending} senders"
        )

    def stats(self) -> MailboxStats:
        """Read the counters."""
        depth, urgent = self.depth, self.hello.urgent_capacity - self.urgent
        return MailboxStats(
            name=self.name,
            depth=depth,
            capacity=self.hello.capacity,
            high_water=self.high_water,
            put=self.put,
            got=self.put - depth - urgent - self.coalesced,
            rejected=self.rejected,
            coalesced=self.coalesced,
            waited_s=max(self.since_s + (depth + urgent) * perf_counter(), 0.0),
            urgent_depth=urgent,
        )
