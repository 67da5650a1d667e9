"""What a consumer holds, whichever kind of mailbox it is."""

from typing import Protocol, TypeVar

from .stats import MailboxStats

T = TypeVar("T")


class Inbox(Protocol[T]):
    """The consuming side of a mailbox, for one task in an event loop."""

    async def get(self) -> T:
        """Take the next message, urgent ones first; cancelled, it has taken none.

        Raises:
            MailboxClosed: Closed or finished, and drained.
            MailboxBroken: The sender's process is gone, and what it sent is drained.
            MailboxMisused: Another loop's mailbox, or a second consumer.
        """
        ...

    async def drain(self) -> list[T]:
        """Take everything that waits, at least one message; else as ``get``."""
        ...

    def get_nowait(self) -> T:
        """Take the next message at once.

        Raises:
            MailboxEmpty: Nothing waits, but more can come.
            MailboxClosed, MailboxBroken, MailboxMisused: As for ``get``.
        """
        ...

    def drain_nowait(self) -> list[T]:
        """Take everything that waits, maybe nothing.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        ...

    def close(self) -> None:
        """Refuse all further puts; what waits can still be taken."""
        ...

    def stats(self) -> MailboxStats:
        """Read the mailbox's figures."""
        ...
