"""Amendment: what a request may change while it is under way.

Rows that are dispatched already count: a limit that they reach ends the sequence with
their results, one that the known tokens reach ends it at once.
"""

from ...protocol.amend import Amend
from ...protocol.requests import FinishReason
from ...protocol.steps import RunnerLimits
from .ledger import Ledger
from .roster import Roster
from .sequence import Home, Sequence
from .settlement import Settlement


class Amendment:
    """Changes the limits and ranks of live sequences.

    Args:
        limits: The runner's: no limit is raised beyond what fits.
        roster: Homes of the sequences.
        ledger: Steps that may hold the last row of one.
        settlement: Ends those that have said enough.
    """

    def __init__(
        self,
        limits: RunnerLimits,
        roster: Roster,
        ledger: Ledger,
        settlement: Settlement,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._settlement = settlement
        # The last token is never computed, so it takes no place in the pool.
        pool = limits.num_pages * limits.page_size + 1
        self._longest = min(limits.max_context, pool)

    def apply(self, amend: Amend) -> None:
        """Change a request; an unknown or ended one is ignored."""
        sequence = self._roster.live.get(amend.request)
        if sequence is None:
            return
        if amend.priority is not None:
            self._rank(sequence, amend.priority)
        if amend.max_tokens is not None:
            self._limit(sequence, sequence.prompt_tokens + amend.max_tokens)

    def _rank(self, sequence: Sequence, priority: int) -> None:
        """Give it another priority; in line, it keeps the place of its arrival."""
        in_line = sequence.home is Home.FRESH or sequence.home is Home.RESUMING
        if in_line:
            self._roster.take(sequence)
        sequence.priority = priority
        if in_line:
            self._roster.place(sequence)

    def _limit(self, sequence: Sequence, length: int) -> None:
        length = min(length, self._longest)
        known = len(sequence.tokens)
        # One that lost its slot comes back only to go on, not to be ended.
        drained = sequence.slot is None and sequence.length >= length
        sequence.max_length = max(length, known)
        if known >= length or drained:
            self._settlement.end(sequence, FinishReason.LENGTH)
        elif sequence.slot is None:
            sequence.left = length - sequence.length
        else:
            self._roster.take(sequence)  # which brings its marks up to date
            sequence.left = max(length - sequence.length, 0)
            if not sequence.left:
                self._ledger.note_last(sequence)
            self._roster.place(sequence)
