"""Lanes that several threads share: one short lock around every rule.

Under the lock only the pure rules of ``Lanes`` run; whoever is to be woken is woken
after it is released. The consumer is woken once, when something arrives while it
sleeps, however many messages follow before it looks: not once per message.
"""

from collections.abc import Callable
from threading import Lock
from time import perf_counter
from typing import TypeVar

from ..protocol.errors import MailboxMisused
from .lanes import URGENT_CAPACITY, Lanes
from .overflow import Overflow
from .wakers import Waker, wake

T = TypeVar("T")


class SharedLanes(Lanes[T, Waker]):
    """Lanes, the lock that guards them, and the consumer's waker while it sleeps.

    The rules inherited from ``Lanes`` are called with the lock held, all methods
    written here without it.
    """

    __slots__ = ("lock", "sleeper")

    def __init__(
        self,
        name: str,
        capacity: int,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
        urgent_capacity: int = URGENT_CAPACITY,
    ) -> None:
        super().__init__(name, capacity, overflow, merge, urgent_capacity)
        self.lock = Lock()
        self.sleeper: Waker | None = None

    def offer(self, item: T, make_waker: Callable[[], Waker] | None) -> Waker | None:
        """Put a message, or queue a turn for its sender.

        Args:
            item: The message.
            make_waker: Builds the sender's turn; None if it won't wait.

        Returns:
            None if the message is put, else the turn to wait for.

        Raises:
            MailboxFull: No room, and the sender won't wait, or the mailbox rejects.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        with self.lock:
            if (
                len(self.items) < self.limit
            ):  # accept, written out: a tenth of the price
                self.items.append(item)
                self.since_s -= perf_counter()
                sleeper = self.sleeper
                if sleeper is None:
                    return None
                self.sleeper = None
            elif self.settle(item):
                return None  # into a message that waits, which nobody sleeps beside
            elif make_waker is None:
                self.rejected += 1
                raise self.full()
            else:
                turn = make_waker()
                self.join(turn)
                return turn
        self.rouse(sleeper)
        return None

    def offer_urgent(self, item: T) -> None:
        """Put a message into the urgent lane.

        Raises:
            MailboxFull: The lane's own bound is reached.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        with self.lock:
            self.append_urgent(item)
            sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None:
            self.rouse(sleeper)

    def admit(self, item: T) -> None:
        """Put the message of a sender whose turn was granted.

        Raises:
            MailboxBroken: The consumer closed instead.
        """
        with self.lock:
            self.enter(item)
            sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None:
            self.rouse(sleeper)

    def granted(self, turn: Waker) -> bool:
        """Whether a turn waits no more: it was granted, or all were refused."""
        with self.lock:
            return turn not in self.turns.waiting

    def give_up(self, turn: Waker) -> None:
        """Withdraw a turn, and pass on what it held."""
        with self.lock:
            woken = self.leave(turn)
            ended = self.ending() is not None
        self.wake_turns(woken)
        if ended:
            self.wake_consumer()

    def collect(self, every: bool, waker: Waker | None = None) -> list[T]:
        """Take the next message, or every one.

        Args:
            every: Whether to take all that wait.
            waker: Left behind to be woken, if nothing waits.

        Returns:
            The messages; none if nothing waits.

        Raises:
            MailboxClosed, MailboxBroken: Nothing more can come.
            MailboxMisused: Another consumer sleeps here.
        """
        with self.lock:
            if not (self.urgent or self.items):
                if error := self.ending():
                    raise error
                if waker is not None:
                    if self.sleeper is not None:
                        raise MailboxMisused(
                            f"mailbox {self.name!r} has one consumer, and a second "
                            "one waits on it"
                        )
                    self.sleeper = waker
                return []
            batch = self.take_all() if every else [self.take()]
            woken = self.grant() if self.turns.waiting else ()
        if woken:
            self.wake_turns(woken)
        return batch

    def sweep(self) -> list[T]:
        """Take every message, maybe none, whether more can come or not."""
        with self.lock:
            batch = self.take_all()
            woken = self.grant() if self.turns.waiting else ()
        if woken:
            self.wake_turns(woken)
        return batch

    def forget(self, waker: Waker) -> None:
        """Leave the consumer's waker behind no longer."""
        with self.lock:
            if self.sleeper is waker:
                self.sleeper = None

    def end(self) -> None:
        """End the sending side, and wake a consumer that has nothing to wait for."""
        with self.lock:
            self.finish()
            ended = self.ending() is not None
        if ended:
            self.wake_consumer()

    def shut(self) -> None:
        """End the consuming side, and wake everybody."""
        with self.lock:
            woken = self.close()
        self.wake_turns(woken)
        self.wake_consumer()

    def wake_consumer(self) -> None:
        """Wake the consumer, if it sleeps."""
        with self.lock:
            sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None:
            wake((sleeper,))

    def rouse(self, sleeper: Waker) -> None:
        """Wake the consumer for a message.

        Raises:
            MailboxBroken: Its loop was closed while it slept; nothing is delivered.
        """
        if wake((sleeper,)):
            self.shut()
            raise self.gone()

    def wake_turns(self, turns: "list[Waker] | tuple[()]") -> None:
        """Wake senders; what a sender held whose loop is gone, the next one gets."""
        lost = wake(turns)
        while lost:
            with self.lock:
                woken = [turn for gone in lost for turn in self.leave(gone)]
            lost = wake(woken)
