"""The mailbox between tasks of one event loop: a deque, and futures when it is full.

In a loop nothing runs between two awaits, so there is no lock, and a put or get that
need not wait costs no trip through the loop.
"""

from collections.abc import Callable
from typing import TypeVar

from .address import Address
from .consumer import LoopConsumer
from .lanes import URGENT_CAPACITY, State
from .loop_address import LoopAddress
from .loop_lanes import LoopLanes
from .overflow import Overflow

T = TypeVar("T")


class Mailbox(LoopConsumer[T]):
    """A bounded mailbox: one consumer, many senders, one event loop.

    It binds to the running loop at its first use, and refuses any other after that.

    Args:
        name: For errors and metrics.
        capacity: Most messages that wait, urgent ones aside; at least 1.
        overflow: What happens to one more.
        merge: ``merge(older, newer)`` for COALESCE; without side effects.
        urgent_capacity: Most urgent messages that wait.

    Raises:
        InvalidSetting: A bound below 1, or merge and overflow that do not match.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
        urgent_capacity: int = URGENT_CAPACITY,
    ) -> None:
        super().__init__(LoopLanes(name, capacity, overflow, merge, urgent_capacity))

    def address(self) -> Address[T]:
        """Open one more address for a sender.

        Raises:
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
        """
        if self._lanes.state is not State.OPEN:
            raise self._lanes.gone()
        return LoopAddress(self._lanes)

    def finish(self) -> None:
        """End the sending side: no put any more; what waits is still delivered.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        self._lanes.end()
