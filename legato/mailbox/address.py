"""What a sender holds: a mailbox's address, whichever kind of mailbox it is."""

from typing import Protocol, TypeVar

from .stats import MailboxStats

T_contra = TypeVar("T_contra", contravariant=True)


class Address(Protocol[T_contra]):
    """The sending side of a mailbox, for tasks in an event loop.

    One sender's messages arrive in its order, within each lane. A put that returned is
    delivered once; a put that raised, cancellation included, is not delivered.
    """

    async def put(self, item: T_contra) -> None:
        """Put a message, waiting for room if the mailbox keeps back.

        Cancelled, it has not put the message.

        Raises:
            MailboxFull: The mailbox rejects instead of waiting.
            MailboxClosed: The sending side finished.
            MailboxBroken: The consumer is gone.
            MailboxMisused: Called from a loop that this address does not serve.
        """
        ...

    def put_nowait(self, item: T_contra) -> None:
        """Put a message at once.

        Raises:
            MailboxFull: No room, or others wait for it.
            MailboxClosed, MailboxBroken, MailboxMisused: As for ``put``.
        """
        ...

    def put_urgent(self, item: T_contra) -> None:
        """Put a message past all that are not urgent; it never waits.

        Raises:
            MailboxFull: The urgent lane's own bound is reached.
            MailboxClosed, MailboxBroken, MailboxMisused: As for ``put``.
        """
        ...

    def close(self) -> None:
        """Give this address up; the last one to close finishes the mailbox."""
        ...

    def stats(self) -> MailboxStats:
        """Read the mailbox's figures, as far as this side knows them."""
        ...
