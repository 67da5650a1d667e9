"""The consuming half of a mailbox whose state lives in one event loop."""

from typing import Generic, TypeVar

from ..protocol.errors import MailboxEmpty
from .loop_lanes import LoopLanes
from .stats import MailboxStats

T = TypeVar("T")


class LoopConsumer(Generic[T]):
    """Takes from lanes; an ``Inbox``. Whatever fills them is not its business."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: LoopLanes[T]) -> None:
        self._lanes = lanes

    @property
    def name(self) -> str:
        """The mailbox's name, for errors and metrics."""
        return self._lanes.name

    async def get(self) -> T:
        """Take the next message; see ``Inbox.get``.

        Raises:
            MailboxClosed, MailboxBroken: Nothing more can come.
            MailboxMisused: Another loop's mailbox, or a second consumer.
        """
        lanes = self._lanes
        lanes.check()
        while not (lanes.items or lanes.urgent):
            sleeper = lanes.sleep()
            try:
                await sleeper
            finally:
                lanes.stir(sleeper)
        item = lanes.take()
        self._took()
        return item

    async def drain(self) -> list[T]:
        """Take everything that waits, at least one message; see ``Inbox.drain``.

        Raises:
            MailboxClosed, MailboxBroken: Nothing more can come.
            MailboxMisused: Another loop's mailbox, or a second consumer.
        """
        lanes = self._lanes
        lanes.check()
        while not (lanes.items or lanes.urgent):
            sleeper = lanes.sleep()
            try:
                await sleeper
            finally:
                lanes.stir(sleeper)
        batch = lanes.take_all()
        self._took()
        return batch

    def get_nowait(self) -> T:
        """Take the next message at once; see ``Inbox.get_nowait``.

        Raises:
            MailboxEmpty: Nothing waits, but more can come.
            MailboxClosed, MailboxBroken: Nothing more can come.
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        lanes.check()
        try:
            item = lanes.take()
        except MailboxEmpty:
            if error := lanes.ending():
                raise error from None
            raise
        self._took()
        return item

    def drain_nowait(self) -> list[T]:
        """Take everything that waits, maybe nothing.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        lanes.check()
        batch = lanes.take_all()
        self._took()
        return batch

    def close(self) -> None:
        """Refuse all further puts; what waits can still be taken.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        lanes = self._lanes
        lanes.check()
        lanes.wake_turns(lanes.close())
        lanes.wake()

    def stats(self) -> MailboxStats:
        """Read the figures; from any thread, though then not of one moment."""
        return self._lanes.stats()

    def _took(self) -> None:
        """Pass freed room on."""
        lanes = self._lanes
        if lanes.turns.waiting:
            lanes.wake_turns(lanes.grant())
