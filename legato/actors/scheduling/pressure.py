"""Pressure: who gives up slot and pages when there are too few.

Paused sequences first, the one paused longest before the others; then the lowest
priority (as raised by waiting before its start), of it the latest arrival. The most
urgent, earliest running sequence is never chosen, and every sequence alone fits into
the pool: so one always makes progress.
"""

from heapq import heapify, heappop, heappush

from .ledger import Ledger
from .roster import Roster
from .sequence import Home, Sequence
from .storage import Storage
from .twins import Twins

Entry = tuple[int, int, int, Sequence]
"""Negated level, negated order of arrival, epoch at that time, sequence."""


class Pressure:
    """Preemption.

    Args:
        roster: Homes of the sequences.
        storage: What they hold.
        ledger: What landings will give back.
        twins: Whose followers wait for them.
    """

    def __init__(
        self, roster: Roster, storage: Storage, ledger: Ledger, twins: Twins
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._ledger = ledger
        self._twins = twins
        self._weakest: list[Entry] = []
        self._claimed = 0
        self.num_preempted = 0

    def begin_step(self) -> None:
        """Forget the claims on pages that the last step could not give."""
        self._claimed = 0

    def watch(self, sequence: Sequence) -> None:
        """Make a sequence that began to run a candidate."""
        rank = (-sequence.level, -sequence.order)
        heappush(self._weakest, (*rank, sequence.epoch, sequence))
        if len(self._weakest) > 2 * self._roster.num_running + 64:
            # The strong ones that ended lie deep and would never surface.
            self._weakest = [entry for entry in self._weakest if _is_valid(entry)]
            heapify(self._weakest)

    def preempt(self, sequence: Sequence) -> None:
        """Take slot and pages from a sequence; it goes on later by recomputing."""
        self.num_preempted += 1
        self._roster.take(sequence)
        self._storage.vacate(sequence)
        sequence.lose_device()
        self._roster.place(sequence)
        self.release_followers(sequence)

    def release_followers(self, sequence: Sequence) -> None:
        """Let those who waited for a sequence go their own way."""
        for follower in self._twins.leave(sequence):
            self._roster.move(follower)

    def make_room(self, pages: int, sequence: Sequence, *, started: bool) -> bool:
        """Preempt until so many pages are available or on their way.

        Args:
            pages: How many are needed.
            sequence: Who needs them.
            started: It runs already; it may then displace its equals that came later.

        Returns:
            Whether they are available now. If not, some may be behind the fence; a
            started sequence claims them: the next one does not count on them.
        """
        if self._storage.available >= pages:
            return True
        wanted = pages + (self._claimed if started else 0)
        while self._storage.available + self._ledger.num_fenced < wanted:
            victim = self._victim(sequence, started=started)
            if victim is None:
                break
            self.preempt(victim)
        if self._storage.available >= pages:
            return True
        if started:
            self._claimed = wanted
        return False

    def make_slot(self, sequence: Sequence) -> bool:
        """Preempt for a slot; say whether one is free now."""
        if not self._storage.num_free_slots and not self._ledger.has_fenced_slots:
            victim = self._victim(sequence, started=False)
            if victim is not None:
                self.preempt(victim)
        return self._storage.num_free_slots > 0

    def has_weaker(self, sequence: Sequence) -> bool:
        """Whether a sequence in line could displace someone."""
        return self._victim(sequence, started=False) is not None

    def _victim(self, sequence: Sequence, *, started: bool) -> Sequence | None:
        for paused in self._roster.holding:
            return paused
        while self._weakest:
            level, order, _, weakest = self._weakest[0]
            if not _is_valid(self._weakest[0]):
                heappop(self._weakest)
                continue
            if -level > sequence.level:
                return weakest
            later = -level == sequence.level and -order > sequence.order
            return weakest if started and later else None
        return None

    def clear(self) -> None:
        """Forget everyone: nobody runs."""
        self._weakest.clear()
        self._claimed = 0


def _is_valid(entry: Entry) -> bool:
    """Whether an entry's sequence still runs as it did then."""
    _, _, epoch, sequence = entry
    running = sequence.home is Home.DECODE or sequence.home is Home.PREFILL
    return running and sequence.epoch == epoch
