"""The cast: who decodes in a round, laid out as a step's message and result need it."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True, eq=False)
class Cast:
    """Who takes part in a round, side by side and in order.

    Args:
        slots: Their slots.
        requests: Their requests.
        texts: Their known tokens, to append to.
        ends: Every token that may end one of them.
    """

    slots: tuple[int, ...] = ()
    requests: tuple[int, ...] = ()
    texts: tuple[list[int], ...] = ()
    ends: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.slots)


NOBODY = Cast()
