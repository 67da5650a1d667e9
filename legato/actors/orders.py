"""What the front end may ask of the core, and the line it asks through.

The line outlives any one core: while a core is being replaced, orders to it are
dropped, because the keeper tells the next one everything that is still wanted.
"""

from collections import deque

import msgspec

from ..mailbox import (
    Address,
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
    MailboxStats,
)
from ..protocol.amend import Amend
from ..protocol.core import StopCore, TellStats, WhenIdle
from ..protocol.errors import EngineClosed
from ..protocol.requests import Admit, Cancel, Credit
from ..protocol.tracing import StartTrace, StopTrace
from .scheduling.batching import Batching


class SetBatching(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Change the batching strategy of a running scheduler."""

    batching: Batching


Order = (
    Admit
    | Amend
    | Cancel
    | Credit
    | SetBatching
    | TellStats
    | WhenIdle
    | StartTrace
    | StopTrace
    | StopCore
)


class OrderLine:
    """The front end's way to whichever core there is; used in its loop alone."""

    def __init__(self) -> None:
        self._core: Address[Order] | None = None
        self._held: deque[Order] = deque()
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a core that takes orders."""
        return self._core is not None

    def connect(self, core: Address[Order] | None) -> None:
        """Lead to this core from now on, or to nobody for a while."""
        self._core = core
        self._held.clear()  # the next core is told everything anew

    def close(self) -> None:
        """Lead nowhere for good."""
        self._closed = True
        self._core = None

    def put_nowait(self, order: Order) -> None:
        """Send an order behind those that wait.

        Raises:
            MailboxFull: The core has no room.
            EngineClosed: There will be no core any more.
        """
        if self._closed:
            raise EngineClosed("the engine is shutting down")
        if self._core is not None:
            try:
                self._core.put_nowait(order)
            except (MailboxBroken, MailboxClosed):
                pass  # it died just now; the keeper will tell the next one

    def put_urgent(self, order: Order) -> None:
        """Send an order past those that wait; after closing it goes nowhere.

        Where more of them wait than the lane holds, it is held and sent later: letting
        go of a stream must never fail.
        """
        self._held.append(order)
        self.flush()

    def flush(self) -> None:
        """Send what is held, as far as there is room now."""
        while self._held and self._core is not None:
            try:
                self._core.put_urgent(self._held[0])
            except MailboxFull:
                return
            except (MailboxBroken, MailboxClosed):
                break  # as above; and a core that has ended has nothing to cancel
            self._held.popleft()
        self._held.clear()

    def stats(self) -> tuple[MailboxStats, ...]:
        """The core's mailbox, if there is a core."""
        return () if self._core is None else (self._core.stats(),)
