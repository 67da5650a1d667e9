"""Lanes that live in one event loop: no lock, futures for whoever waits."""

import asyncio
from asyncio import (
    # The public form raises where no loop runs, which costs a plain thread's put more
    # than all the rest of it.
    _get_running_loop as _running_loop,  # pyright: ignore[reportPrivateUsage]
)
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import TypeVar

from ..protocol.errors import MailboxMisused
from .lanes import URGENT_CAPACITY, Lanes, State
from .overflow import Overflow

T = TypeVar("T")

running_loop: Callable[[], asyncio.AbstractEventLoop | None] = _running_loop

Turn = asyncio.Future[None]


class LoopLanes(Lanes[T, Turn]):
    """Lanes bound to the loop that first uses them.

    To ask for the running loop costs as much as all the rest of a put (Python 3.11
    asks the system for the process's id). So ``check`` asks whether the lanes' own
    loop runs in this thread, for a third; and a put that joins others, which wakes
    nobody, looks at the thread alone.
    """

    __slots__ = ("loop", "sleeper", "thread")

    def __init__(
        self,
        name: str,
        capacity: int,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
        urgent_capacity: int = URGENT_CAPACITY,
    ) -> None:
        super().__init__(name, capacity, overflow, merge, urgent_capacity)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.sleeper: asyncio.Future[None] | None = None
        self.thread = 0  # no thread's ident

    def check(self) -> None:
        """Bind to the running loop, or refuse it.

        Raises:
            MailboxMisused: The lanes belong to another loop, or to no running one.
        """
        if self.thread == get_ident() and self.loop and self.loop.is_running():
            return
        running = running_loop()
        if running is not None and self.loop in (None, running):
            self.loop = running
            self.thread = get_ident()
        elif self.loop is not None:
            where = "no event loop" if running is None else "another event loop"
            raise MailboxMisused(
                f"mailbox {self.name!r} belongs to the event loop that first used it, "
                f"and was used from {where}; across loops and threads, use a "
                "LoopInbox or a ThreadInbox"
            )

    def future(self) -> asyncio.Future[None]:
        """Make a future of the lanes' loop."""
        if self.loop is None:
            raise MailboxMisused(f"mailbox {self.name!r}: waiting needs an event loop")
        return self.loop.create_future()

    def sleep(self) -> asyncio.Future[None]:
        """Leave a future to be resolved when something arrives in the empty lanes.

        Raises:
            MailboxClosed, MailboxBroken: Nothing more can come.
            MailboxMisused: Another task sleeps already, or no event loop runs here.
        """
        if self.state is not State.OPEN and (error := self.ending()):
            raise error
        if self.sleeper is not None and not self.sleeper.done():
            raise MailboxMisused(
                f"mailbox {self.name!r} has one consumer, and a second one waits on it"
            )
        sleeper = self.sleeper = self.future()
        return sleeper

    def stir(self, sleeper: asyncio.Future[None]) -> None:
        """Sleep no more, for whatever reason."""
        if self.sleeper is sleeper:
            self.sleeper = None

    def end(self) -> None:
        """End the sending side, and wake a consumer that has nothing to await."""
        self.check()
        self.finish()
        if self.ending():
            self.wake()

    def wake(self) -> None:
        """Wake the consumer, if it sleeps."""
        sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)

    def wake_turns(self, turns: Iterable[Turn]) -> None:
        """Wake senders; one that was just cancelled gives its turn up itself."""
        for turn in turns:
            if not turn.done():
                turn.set_result(None)
