"""A snapshot of a whole engine, for people and for metrics."""

import msgspec

from ..mailbox import MailboxStats
from ..protocol.core import CoreStats


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """An engine at one moment.

    Args:
        state: ``starting``, ``ready``, ``draining``, ``failed`` or ``closed``.
        model: Its name.
        open_streams: Streams whose reader has not left, those not yet admitted too.
        core: The core's last report; at most a tenth of a second old while it works.
        core_restarts: Cores replaced after a loss; the core's counters then begin anew.
        mailboxes: The mailboxes of the front end and the core.
        ttft_ms_p50: Time to first token over the last requests, or 0.
        itl_ms_p50: Time between tokens over the last tokens, or 0.
        itl_ms_p99: Its tail.
        output_tokens_per_s: Over the last seconds.
    """

    state: str
    model: str
    open_streams: int
    core: CoreStats
    core_restarts: int = 0
    mailboxes: tuple[MailboxStats, ...] = ()
    ttft_ms_p50: float = 0.0
    itl_ms_p50: float = 0.0
    itl_ms_p99: float = 0.0
    output_tokens_per_s: float = 0.0
