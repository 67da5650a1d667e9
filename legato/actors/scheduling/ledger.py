"""The ledger: steps that were handed out and whose results are not known yet.

A *flight* is such a step, with the sequences behind its rows. Whatever is given back
while a flight may still touch it (a page, a slot) is left with the flight and becomes
free as it lands: that is the step fence.
"""

from collections import deque
from dataclasses import dataclass, field

from ...protocol.steps import SlotOpen, StepPlan, StepResult, StepRow
from .cast import NOBODY, Cast
from .sequence import Sequence


@dataclass(slots=True, eq=False)
class Flight:
    """One step between its plan and its result.

    Args:
        step: Its number.
        budget: Positions it may still take while it is being planned.
        cast: Who decodes in it.
        grown: (slot, page) of the decodes that begin a page.
        last: Sequences whose last row is in it.
        rows: Of the others, with their sequences beside them.
        parted: By request, sequences that have lost their slot since they got a row.
        pages: References to give back as it lands.
        slots: Slots to give back as it lands.
    """

    step: int
    budget: int
    cast: Cast = NOBODY
    grown: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    last: list[Sequence] = field(default_factory=list[Sequence])
    rows: list[StepRow] = field(default_factory=list[StepRow])
    sequences: list[Sequence] = field(default_factory=list[Sequence])
    num_samples: int = 0
    opens: list[SlotOpen] = field(default_factory=list[SlotOpen])
    copies: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    pages: list[int] = field(default_factory=list[int])
    slots: list[int] = field(default_factory=list[int])
    parted: dict[int, Sequence] = field(default_factory=dict[int, Sequence])
    num_tokens: int = 0
    landed: bool = False

    @property
    def num_rows(self) -> int:
        """Sequences with a row in it."""
        return len(self.cast) + len(self.rows)

    def add_cast(self, cast: Cast) -> None:
        """Put the decodes in front."""
        count = len(cast)
        self.cast = cast
        self.budget -= count
        self.num_tokens += count
        self.num_samples += count

    def add(self, sequence: Sequence, row: StepRow) -> None:
        """Put a row behind the others, with its sequence's marks moved on."""
        self.rows.append(row)
        self.sequences.append(sequence)
        count = row.num_tokens
        self.budget -= count
        self.num_tokens += count
        sequence.planned += count
        sequence.room -= count
        sequence.flight = self
        if row.samples:
            self.num_samples += 1
            sequence.length += 1
            sequence.left -= 1
            sequence.fed = True
            if sequence.left == 0:
                self.last.append(sequence)

    def close(self) -> None:
        """Let go of rows and sequences after the landing.

        Its sequences still point here: without this each step would be a cycle, left
        to the garbage collector.
        """
        self.cast = NOBODY
        self.rows.clear()
        self.sequences.clear()
        self.last.clear()
        self.parted.clear()

    def plan(self) -> StepPlan:
        """Build the message."""
        return StepPlan(
            self.step,
            tuple(self.rows),
            tuple(self.opens),
            tuple(self.copies),
            self.cast.slots,
            tuple(self.grown),
        )


class Ledger:
    """Flights, oldest first.

    Args:
        depth: Most flights at once.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._flights: deque[Flight] = deque()
        self._draft: Flight | None = None
        self._next_step = 0

    @property
    def is_full(self) -> bool:
        """Whether another step must wait for a result."""
        return len(self._flights) >= self._depth

    @property
    def num_flights(self) -> int:
        """Steps without a result."""
        return len(self._flights)

    @property
    def num_fenced(self) -> int:
        """Page references that landings will give back."""
        return sum(len(flight.pages) for flight in self._fences())

    @property
    def has_fenced_slots(self) -> bool:
        """Whether a landing will give a slot back."""
        return any(flight.slots for flight in self._fences())

    def draft(self, budget: int) -> Flight:
        """Begin the next step; it takes off only with ``launch``."""
        self._draft = Flight(self._next_step, budget)
        return self._draft

    def launch(self, flight: Flight) -> None:
        """Count a drafted step as dispatched."""
        self._flights.append(flight)
        self._draft = None
        self._next_step += 1

    def part(self, sequence: Sequence) -> None:
        """Note that a sequence with rows in flight loses its slot."""
        for flight in self._fences():
            flight.parted[sequence.request] = sequence

    def note_last(self, sequence: Sequence) -> None:
        """Note that a step in flight holds a sequence's last row after all."""
        for flight in self._fences():
            flight.last.append(sequence)

    def land(self, result: StepResult) -> Flight:
        """Take the oldest flight out.

        Raises:
            ValueError: The result is not that flight's: one was lost or repeated.
        """
        if not self._flights or self._flights[0].step != result.step:
            expected = self._flights[0].step if self._flights else "none"
            raise ValueError(f"result of step {result.step}, expected {expected}")
        flight = self._flights[0]
        if flight.num_samples != len(result.tokens):
            raise ValueError(
                f"step {result.step} brought {len(result.tokens)} tokens, "
                f"not {flight.num_samples}"
            )
        self._flights.popleft()
        flight.landed = True
        return flight

    def clear(self) -> None:
        """Forget all flights and count from 0 again: the device is gone."""
        self._flights.clear()
        self._draft = None
        self._next_step = 0

    def _fences(self) -> list[Flight]:
        """The flights, and the step that is being planned: its rows count already."""
        return [*self._flights, self._draft] if self._draft else [*self._flights]
