"""A part of a parameter: what one of several ranks holds of it."""

from typing import NamedTuple


class Part(NamedTuple):
    """Some rows or columns, side by side.

    Args:
        axis: 0 for rows, 1 for columns.
        start: The first.
        stop: Behind the last.
    """

    axis: int
    start: int
    stop: int

    @property
    def slices(self) -> tuple[slice, ...]:
        """The part as an index into the whole."""
        return (*(slice(None),) * self.axis, slice(self.start, self.stop))
