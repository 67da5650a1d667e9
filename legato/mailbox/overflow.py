"""What a full mailbox does with one message more."""

import enum


class Overflow(enum.Enum):
    """Declared once per mailbox; senders need not know which."""

    BACKPRESSURE = "backpressure"
    """``put`` waits for room, in order; ``put_nowait`` raises ``MailboxFull``."""

    REJECT = "reject"
    """``put`` raises ``MailboxFull`` at once, as ``put_nowait`` does."""

    COALESCE = "coalesce"
    """The newest is merged into the last one that waits; no put ever waits."""
