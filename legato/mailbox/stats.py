"""A mailbox's figures at one moment: the metrics of the pipeline."""

import msgspec


class MailboxStats(msgspec.Struct, frozen=True, gc=False):
    """One reading. Always: ``put == got + depth + urgent_depth + coalesced``.

    Args:
        name: The mailbox's.
        depth: Messages that wait, urgent ones aside.
        capacity: Most of them; between processes, merged messages too long for one can
            be more.
        high_water: Most of them so far.
        put: Messages accepted so far, merged ones included.
        got: Messages taken so far.
        rejected: Puts answered with ``MailboxFull``.
        coalesced: Messages merged into one that waited.
        waited_s: Time that messages spent waiting so far, summed over messages, those
            that still wait included. Its growth over ``got``'s growth is the mean wait;
            over the clock's, the mean depth.
        urgent_depth: Messages in the urgent lane.
    """

    name: str
    depth: int
    capacity: int
    high_water: int
    put: int
    got: int
    rejected: int
    coalesced: int
    waited_s: float
    urgent_depth: int
