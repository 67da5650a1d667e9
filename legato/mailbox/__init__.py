"""How messages wait: bounded mailboxes between actors, threads and processes.

The relative import below is deliberate: it makes a stray ``import mailbox`` from the
repository's root fail loudly instead of shadowing the standard library's module.
"""

from ..protocol.errors import MailboxBroken, MailboxClosed, MailboxFull

__all__ = ["MailboxBroken", "MailboxClosed", "MailboxFull"]
