"""A snapshot of a whole engine, for people and for metrics."""

import msgspec

from ..mailbox import MailboxStats
from ..protocol.core import CoreStats


class StageTimes(msgspec.Struct, frozen=True):
    """How long a stage took the requests that ended of late.

    Args:
        name: The metric's.
        count: Requests that went through it.
        p50_ms: The median.
        p99_ms: The tail.
    """

    name: str
    count: int
    p50_ms: float
    p99_ms: float


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """An engine at one moment.

    Args:
        state: ``starting``, ``ready``, ``stalled``, ``draining``, ``failed`` or
            ``closed``.
        model: Its name.
        open_streams: Streams whose reader has not left, those not yet admitted too.
        core: The core's last report; at most a tenth of a second old while it works.
        core_restarts: Cores replaced after a loss; the core's counters then begin anew.
        mailboxes: The mailboxes of the front end and the core.
        ttft_ms_p50: Time to first token over the last requests, or 0.
        itl_ms_p50: Time between tokens over the last tokens, or 0.
        itl_ms_p99: Its tail.
        output_tokens_per_s: Over the last seconds.
        delivery_ms_p50: From a step's end to its output in the streams, of late.
        delivery_ms_p99: Its tail.
        step_ms_p50: A step of the device, since the core's start.
        plan_ms_p50: Host time of one planning or commit, since the core's start.
        plan_ms_p99: Its tail.
        loop_lag_ms_p99: How late timers of the front end's loop fire.
        core_lag_ms_p99: And of the core's.
        stages: Of the requests that ended of late.
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
    delivery_ms_p50: float = 0.0
    delivery_ms_p99: float = 0.0
    step_ms_p50: float = 0.0
    plan_ms_p50: float = 0.0
    plan_ms_p99: float = 0.0
    loop_lag_ms_p99: float = 0.0
    core_lag_ms_p99: float = 0.0
    stages: tuple[StageTimes, ...] = ()
