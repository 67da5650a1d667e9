"""The cast: who decodes in a round, laid out as a step's message and result need it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, frozen=True, eq=False)
class Cast:
    """Who takes part in a round, side by side and in order.

    Args:
        slots: Their slots.
        requests: Their requests.
        appends: Each puts a token behind its sequence's known ones.
        ends: Every token that may end one of them.
    """

    slots: tuple[int, ...] = ()
    requests: tuple[int, ...] = ()
    appends: tuple[Callable[[int], None], ...] = ()
    ends: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.slots)


NOBODY = Cast()
