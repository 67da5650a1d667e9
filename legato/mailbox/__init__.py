"""How messages wait: bounded mailboxes between actors, threads and processes.

The relative import below is deliberate: it makes a stray ``import mailbox`` from the
repository's root fail loudly instead of shadowing the standard library's module.
"""

from ..protocol.errors import (
    MailboxBroken,
    MailboxClosed,
    MailboxEmpty,
    MailboxFull,
    MailboxMisused,
    MessageTooLarge,
)
from .address import Address
from .inbox import Inbox
from .loop_inbox import LoopInbox
from .mailbox import Mailbox
from .overflow import Overflow
from .remote_address import RemoteAddress
from .remote_inbox import RemoteInbox
from .shared_address import SharedAddress
from .stats import MailboxStats
from .thread_inbox import ThreadInbox

__all__ = [
    "Address",
    "Inbox",
    "LoopInbox",
    "Mailbox",
    "MailboxBroken",
    "MailboxClosed",
    "MailboxEmpty",
    "MailboxFull",
    "MailboxMisused",
    "MailboxStats",
    "MessageTooLarge",
    "Overflow",
    "RemoteAddress",
    "RemoteInbox",
    "SharedAddress",
    "ThreadInbox",
]
