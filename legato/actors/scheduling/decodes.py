"""The decodes: the sequences that get one row in every step, moved on as one.

A step moves all of them by one position. Done one by one, that is most of what a step
costs at a thousand streams; so a *round* counts for all, and a member's marks stand as
they were when it was last brought up to date. Only three things single a member out:
its page is full or its last row has come (both are known beforehand: it is filed under
the round in which it is *due*), or something happens to it; then it leaves, and is
brought up to date as it goes.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from typing import TypeVar

from .cast import NOBODY, Cast
from .ledger import Flight
from .sequence import Sequence

T = TypeVar("T")


class Decodes:
    """Members, in no particular order."""

    def __init__(self) -> None:
        self._round = 0
        self._turn = 0
        self._flight: Flight | None = None
        self._due: dict[int, list[Sequence]] = {}
        # Side by side, each member at its ``place`` in all four.
        self._members: list[Sequence] = []
        self._slots: list[int] = []
        self._requests: list[int] = []
        self._texts: list[list[int]] = []
        self._endings: Counter[frozenset[int]] = Counter()
        self._ends: frozenset[int] = frozenset()
        self._cast: Cast | None = NOBODY

    def __len__(self) -> int:
        return len(self._members)

    def add(self, sequence: Sequence) -> None:
        """Take a sequence in."""
        assert sequence.slot is not None, "a decode has no slot"
        sequence.place = len(self._members)
        sequence.round = self._round
        sequence.turn = self._turn
        self._members.append(sequence)
        self._slots.append(sequence.slot)
        self._requests.append(sequence.request)
        self._texts.append(sequence.tokens)
        self._endings[sequence.endings] += 1
        self._changed(endings=self._endings[sequence.endings] == 1)
        self.file(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Let a member go, brought up to date."""
        self._bring(sequence)
        sequence.due = -1
        place = sequence.place
        self._members[-1].place = place
        # The last one takes its place: nobody else moves.
        _fill(self._members, place)
        _fill(self._slots, place)
        _fill(self._requests, place)
        _fill(self._texts, place)
        self._endings[sequence.endings] -= 1
        gone = not self._endings[sequence.endings]
        if gone:
            del self._endings[sequence.endings]
        self._changed(endings=gone)

    def bring_all(self) -> None:
        """Bring every member up to date."""
        for sequence in self._members:
            self._bring(sequence)

    def hold_back(self, room: int) -> set[Sequence]:
        """Where there is room for so many only, leave the others out.

        Those who waited longest take part: of D members each does in one of any
        ceil(D / room) rounds.

        Returns:
            Who is left out of the coming round.
        """
        if len(self._members) <= room:
            return set()
        self._turn += 1
        for sequence in nsmallest(room, self._members, key=lambda one: one.turn):
            sequence.turn = self._turn
        out = {one for one in self._members if one.turn != self._turn}
        for sequence in out:
            self.skip(sequence)
        return out

    def skip(self, sequence: Sequence) -> None:
        """Leave a member out of the coming round."""
        self._bring(sequence)
        sequence.round = self._round + 1

    def take_due(self) -> Iterator[Sequence]:
        """Bring up to date, one by one, those who need a page or are near their end.

        Those who stay must be filed again.
        """
        for sequence in self._due.pop(self._round, ()):
            if sequence.due == self._round:  # else it left, or is here twice
                sequence.due = -1
                self._bring(sequence)
                yield sequence

    def file(self, sequence: Sequence) -> None:
        """File a member under the round that finds its page full or is its last.

        Being left out of a round may make that a round too early, never too late.
        """
        sequence.due = sequence.round + min(sequence.room, sequence.left - 1)
        self._due.setdefault(sequence.due, []).append(sequence)

    def begin(self, flight: Flight, out: set[Sequence]) -> Cast:
        """Count a round; say who takes part: all but those who are left out."""
        cast = self._cast_without(out)
        self._round += 1
        if cast:
            self._flight = flight
        return cast

    def clear(self) -> None:
        """Forget the last flight; nobody is left."""
        assert not self._members, "a member outlived its device"
        self._due.clear()
        self._flight = None

    def _bring(self, sequence: Sequence) -> None:
        rounds = self._round - sequence.round
        if rounds > 0:
            sequence.round = self._round
            sequence.planned += rounds
            sequence.length += rounds
            sequence.room -= rounds
            sequence.left -= rounds
            sequence.flight = self._flight

    def _cast_without(self, out: set[Sequence]) -> Cast:
        if out:
            places = [one.place for one in self._members if one not in out]
            return Cast(
                tuple([self._slots[place] for place in places]),
                tuple([self._requests[place] for place in places]),
                tuple([self._texts[place] for place in places]),
                self._ends,
            )
        if self._cast is None:
            self._cast = Cast(
                tuple(self._slots),
                tuple(self._requests),
                tuple(self._texts),
                self._ends,
            )
        return self._cast

    def _changed(self, *, endings: bool) -> None:
        self._cast = None
        if endings:
            self._ends = frozenset().union(*self._endings)


def _fill(column: list[T], place: int) -> None:
    column[place] = column[-1]
    column.pop()
