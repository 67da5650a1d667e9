"""The order of one line: short work first, but nobody is passed for ever.

A line holds one tenant's waiting sequences of one priority. Highest response ratio
next: of all, the one whose wait is longest relative to its size. Sizes count in powers
of two, so that within a size the order is that of arrival, and only the heads of some
twenty sizes are compared, whatever the line's length.

Once a sequence has waited ``patience_s`` it goes strictly by arrival. So nothing that
arrives more than ``patience_s`` after it can pass it within its line.

Source: Brinch Hansen, "An Analysis of Response Ratio Scheduling", 1971.
"""

from collections import Counter
from heapq import heappop, heappush
from itertools import count

from .sequence import Sequence

Entry = tuple[int, int, Sequence]
"""Order of arrival, ticket, sequence. A ticket that is not the sequence's own any more
marks an entry that left; it is skipped when it surfaces."""


class Line:
    """Waiting sequences of one tenant and priority.

    Args:
        patience_s: Wait after which arrival alone counts.
        tickets: Numbers that no two entries share.
    """

    def __init__(self, patience_s: float, tickets: "count[int]") -> None:
        self._patience_s = patience_s
        self._tickets = tickets
        self._arrivals: list[Entry] = []
        self._sizes: dict[int, list[Entry]] = {}
        self._counts: Counter[int] = Counter()
        self._tokens: Counter[int] = Counter()

    def add(self, sequence: Sequence) -> None:
        """Put a sequence in line, at the place of its arrival."""
        sequence.ticket = next(self._tickets)
        entry = (sequence.order, sequence.ticket, sequence)
        heappush(self._arrivals, entry)
        size = sequence.remaining.bit_length()
        heappush(self._sizes.setdefault(size, []), entry)
        self._counts[size] += 1
        self._tokens[size] += sequence.remaining

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out."""
        sequence.ticket = 0
        size = sequence.remaining.bit_length()
        self._counts[size] -= 1
        self._tokens[size] -= sequence.remaining

    def ahead(self, tokens: int) -> tuple[int, int]:
        """Count the requests, and their tokens, that one so long cannot pass.

        They are no longer and have waited longer: their ratio stays the better one.
        """
        sizes = range(tokens.bit_length() + 1)
        counts, theirs = self._counts, self._tokens
        return sum(counts[size] for size in sizes), sum(theirs[size] for size in sizes)

    @property
    def oldest(self) -> Sequence | None:
        """The first arrival, or None: the line is empty."""
        return _head(self._arrivals)

    def pick(self, now_s: float) -> Sequence:
        """Say who is next; the line must not be empty."""
        best = self.oldest
        assert best is not None, "an empty line has no next"
        if now_s - best.queued_s >= self._patience_s:
            return best
        best_ratio = -1.0
        for size in sorted(self._sizes):
            head = _head(self._sizes[size])
            if head is None:
                del self._sizes[size]
                continue
            ratio = (now_s - head.queued_s) / (1 << size)
            if ratio > best_ratio:
                best, best_ratio = head, ratio
        return best


def _head(entries: list[Entry]) -> Sequence | None:
    while entries:
        _, ticket, sequence = entries[0]
        if sequence.ticket == ticket:
            return sequence
        heappop(entries)
    return None
