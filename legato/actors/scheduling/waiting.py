"""The waiting room: lines by tenant and priority, and which of them is next.

Priority first, then the tenant with the largest deficit, then the order of its line.
A line's *level* is its priority at first; each ``patience_s`` that its oldest sequence
waits raises it by one, up to the best priority that waits. So priority delays, but
never starves.

The bound: once a sequence of priority p has waited (p - q + 2) patiences, nothing of
its own tenant with priority q that came later passes it; other tenants get at most
their fair shares before it.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from .order import Line
from .sequence import Sequence
from .tenants import Share, Tenants


@dataclass(slots=True, eq=False)
class Rank:
    """A line's standing among the others.

    Args:
        line: The line.
        share: Its tenant's account.
        priority: Its own priority.
        level: Its priority as raised by waiting.
        stamp: Changes whenever it is ranked anew; older heap entries are void.
        size: Sequences in it.
        tokens: That they still have to compute.
    """

    line: Line
    share: Share
    priority: int
    level: int = 0
    stamp: int = 0
    size: int = 0
    tokens: int = 0


class WaitingRoom:
    """Sequences in line.

    Args:
        tenants: The accounts, shared with other rooms.
        patience_s: Seconds of waiting that are worth one priority.
    """

    def __init__(self, tenants: Tenants, patience_s: float) -> None:
        self._tenants = tenants
        self._patience_s = patience_s
        self._tickets = count(1)
        self._stamps = count(1)
        self._ranks: dict[tuple[str, int], Rank] = {}
        self._levels: dict[int, list[tuple[float, int, int, Rank]]] = {}
        self._rises: list[tuple[float, int, Rank]] = []
        self._priorities: Counter[int] = Counter()
        self._members: OrderedDict[Sequence, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def oldest_s(self) -> float | None:
        """When the sequence that stands here longest arrived."""
        return next(iter(self._members)).queued_s if self._members else None

    def add(self, sequence: Sequence) -> None:
        """Put a sequence in its line."""
        self._tenants.line_up(sequence.share)
        self._members[sequence] = None
        self._priorities[sequence.priority] += 1
        key = (sequence.share.tenant, sequence.priority)
        rank = self._ranks.get(key)
        if rank is None:
            line = Line(self._patience_s, self._tickets)
            rank = self._ranks[key] = Rank(line, sequence.share, sequence.priority)
        rank.line.add(sequence)
        rank.size += 1
        rank.tokens += sequence.remaining
        if rank.line.oldest is sequence:
            self._rank(rank)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out of its line."""
        self._tenants.step_out(sequence.share)
        del self._members[sequence]
        self._priorities[sequence.priority] -= 1
        if not self._priorities[sequence.priority]:
            del self._priorities[sequence.priority]
        key = (sequence.share.tenant, sequence.priority)
        rank = self._ranks[key]
        was_oldest = rank.line.oldest is sequence
        rank.line.remove(sequence)
        rank.size -= 1
        rank.tokens -= sequence.remaining
        if rank.size == 0:
            rank.stamp = 0
            del self._ranks[key]
        elif was_oldest:
            self._rank(rank)

    def peek(self, now_s: float) -> tuple[int, Sequence] | None:
        """Say who is next and at what level, or None: nobody waits."""
        if not self._members:
            return None
        self._raise(now_s)
        for level in sorted(self._levels):
            rank = self._first(level)
            if rank is None:
                del self._levels[level]
                continue
            return level, rank.line.pick(now_s)
        raise AssertionError("a waiting sequence has no rank")

    def ahead(
        self, tenant: str, priority: int, tokens: int, now_s: float, until_s: float
    ) -> tuple[int, int]:
        """Count who surely goes before a newcomer that has time until a moment.

        Returns:
            Requests, and their tokens together.
        """
        own = self._ranks.get((tenant, priority))
        oldest = own.line.oldest if own is not None else None
        since_s = now_s if oldest is None else oldest.queued_s
        # As urgent as its own line can have become by then.
        level = priority - int((until_s - since_s) / self._patience_s)
        requests = theirs = 0
        for rank in self._ranks.values():
            if rank.priority < level:
                requests += rank.size
                theirs += rank.tokens
            elif rank is own:
                count, in_line = rank.line.ahead(tokens)
                requests += count
                theirs += in_line
        return requests, theirs

    def _rank(self, rank: Rank) -> None:
        """Rank a line by its oldest sequence, at its own priority."""
        oldest = rank.line.oldest
        assert oldest is not None, "an empty line has no rank"
        rank.level = rank.priority
        rank.stamp = next(self._stamps)
        self._seat(rank, oldest.order)
        rise_s = oldest.queued_s + self._patience_s
        heappush(self._rises, (rise_s, rank.stamp, rank))

    def _seat(self, rank: Rank, order: int) -> None:
        entry = (rank.share.used, order, rank.stamp, rank)
        heappush(self._levels.setdefault(rank.level, []), entry)

    def _raise(self, now_s: float) -> None:
        """Raise the lines whose oldest sequence has waited another patience."""
        top = min(self._priorities)
        while self._rises and self._rises[0][0] <= now_s:
            rise_s, stamp, rank = heappop(self._rises)
            if stamp != rank.stamp:
                continue
            oldest = rank.line.oldest
            assert oldest is not None, "a ranked line is not empty"
            rank.stamp = next(self._stamps)
            if rank.level > top:
                rank.level -= 1
                rise_s += self._patience_s
            else:
                # As good as the best; look again later, a better one may come.
                rise_s = now_s + self._patience_s
            self._seat(rank, oldest.order)
            heappush(self._rises, (rise_s, rank.stamp, rank))

    def _first(self, level: int) -> Rank | None:
        """The level's line with the largest deficit."""
        heap = self._levels[level]
        while heap:
            used, order, stamp, rank = heap[0]
            if stamp != rank.stamp or rank.level != level:
                heappop(heap)
            elif used < rank.share.used:
                # Charged since: accounts only grow, so ranking it anew is enough.
                heappop(heap)
                heappush(heap, (rank.share.used, order, stamp, rank))
            else:
                return rank
        return None
