"""Deadlines: which request's time is up, and when to look again."""

from enum import IntEnum
from heapq import heappop, heappush

from ...protocol.requests import Admit
from .sequence import Sequence


class Limit(IntEnum):
    """What a deadline is about."""

    FIRST_TOKEN = 0
    TOTAL = 1


class Deadlines:
    """Deadlines of live requests, the next one first.

    Args:
        live: The live sequences by request; a deadline of another one is void.
    """

    def __init__(self, live: dict[int, Sequence]) -> None:
        self._live = live
        self._heap: list[tuple[float, int, Limit]] = []

    def add(self, admit: Admit) -> None:
        """Watch a request."""
        if admit.ttft_deadline_s > 0:
            when_s = admit.created_s + admit.ttft_deadline_s
            heappush(self._heap, (when_s, admit.request, Limit.FIRST_TOKEN))
        if admit.total_deadline_s > 0:
            when_s = admit.created_s + admit.total_deadline_s
            heappush(self._heap, (when_s, admit.request, Limit.TOTAL))

    @property
    def next_s(self) -> float | None:
        """The next deadline that still means something, or None."""
        while self._heap:
            when_s, request, limit = self._heap[0]
            if self._holds(request, limit):
                return when_s
            heappop(self._heap)
        return None

    def take(self, now_s: float) -> tuple[Sequence, str] | None:
        """Take one whose time is up, with the reason in words, or None."""
        when_s = self.next_s
        if when_s is None or when_s > now_s:
            return None
        _, request, limit = heappop(self._heap)
        sequence = self._live[request]
        admit = sequence.admit
        if limit is Limit.FIRST_TOKEN:
            return sequence, (
                f"no token within {admit.ttft_deadline_s:g} s; allow more time, or "
                "try again when less is running"
            )
        return sequence, (
            f"not done within {admit.total_deadline_s:g} s; allow more time or ask "
            "for fewer tokens"
        )

    def _holds(self, request: int, limit: Limit) -> bool:
        sequence = self._live.get(request)
        if sequence is None:
            return False
        return limit is Limit.TOTAL or sequence.num_output == 0
