"""Block tables on the host: which pages a slot has, and how far it has come.

A plan brings only changes; what a step computes is laid out from here.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..protocol.steps import RunnerLimits, SlotOpen, StepPlan

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """A plan's rows, decodes first. The arrays are the layout's own.

    Args:
        slots: [rows] int64.
        starts: [rows] position of each row's first token.
        counts: [rows] tokens of each row.
        tables: [rows, pages] block tables, as wide as the longest row needs.
        samples: The rows that sample, by place.
        outputs: For each of those, the number of the output token it samples.
        untouched: [cells] cells after the end of pages that are new to their slot in
            this step.
    """

    slots: Ints
    starts: Ints
    counts: Ints
    tables: Ints
    samples: tuple[int, ...]
    outputs: tuple[int, ...]
    untouched: Ints

    @property
    def lasts(self) -> Ints:
        """Of each row that samples, the last of its tokens among the step's."""
        return (self.counts.cumsum() - 1)[list(self.samples)]


class BlockTables:
    """The pages of every slot.

    Args:
        limits: How many slots, of how many pages.
    """

    def __init__(self, limits: RunnerLimits) -> None:
        self._limits = limits
        most_pages = -(-limits.max_context // limits.page_size)
        self._tables = np.zeros((limits.num_slots, most_pages), np.int64)
        self._num_pages = np.zeros(limits.num_slots, np.int64)
        self._ends = np.zeros(limits.num_slots, np.int64)
        self._prompts = np.zeros(limits.num_slots, np.int64)
        self._open = np.zeros(limits.num_slots, np.bool_)
        self._fresh = np.zeros(limits.num_slots, np.bool_)
        # While nobody comes or goes, every plan carries the same tuple of decodes.
        self._decodes: tuple[tuple[int, ...], Ints] = ((), np.zeros(0, np.int64))

    @property
    def most_pages(self) -> int:
        """Pages of the longest context."""
        return self._tables.shape[1]

    def open(self, opened: SlotOpen) -> None:
        """Give a slot to a sequence, forgetting the one before.

        Raises:
            ValueError: The slot or a page is outside the limits.
        """
        slot = opened.slot
        if not 0 <= slot < self._limits.num_slots:
            raise ValueError(f"slot {slot} of {self._limits.num_slots}")
        self._open[slot] = self._fresh[slot] = True
        self._num_pages[slot] = self._ends[slot] = 0
        self._prompts[slot] = opened.prompt_tokens
        self._append(slot, opened.pages)

    def enter(self, plan: StepPlan) -> Layout:
        """Append new pages, and lay decodes and rows out.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        decodes = self._array(plan.decodes)
        rows = np.array([row.slot for row in plan.rows], np.int64)
        slots = np.concatenate((decodes, rows))
        self._check_open(slots)
        for slot, page in plan.grown:
            self._append(slot, (page,))
        for row in plan.rows:
            self._append(row.slot, row.pages)
        starts, counts = self._spans(plan, decodes)
        self._check(slots, starts, counts)
        ends = self._ends[slots] = starts + counts
        width = int(-(-ends.max(initial=0) // self._limits.page_size))
        samples = [*range(len(decodes))]
        samples += [n for n, row in enumerate(plan.rows, len(decodes)) if row.samples]
        outputs = (ends - self._prompts[slots])[samples]
        return Layout(
            slots=slots,
            starts=starts,
            counts=counts,
            tables=self._tables[slots, :width],
            samples=tuple(samples),
            outputs=tuple(outputs.tolist()),
            untouched=self._untouched(slots, starts, ends),
        )

    def clear(self) -> None:
        """Forget every sequence."""
        self._open[:] = False

    def _append(self, slot: int, pages: tuple[int, ...]) -> None:
        if not pages:
            return
        if min(pages) < 0 or max(pages) >= self._limits.num_pages:
            raise ValueError(
                f"a page of {pages} is outside the pool of {self._limits.num_pages}"
            )
        self._check_open(np.array([slot]))
        held = int(self._num_pages[slot])
        end = held + len(pages)
        if end > self._tables.shape[1]:
            raise ValueError(f"{end} pages are more than a context has")
        self._tables[slot, held:end] = pages
        self._num_pages[slot] = end

    def _array(self, decodes: tuple[int, ...]) -> Ints:
        if decodes is not self._decodes[0]:
            self._decodes = decodes, np.array(decodes, np.int64)
        return self._decodes[1]

    def _check_open(self, slots: Ints) -> None:
        inside = (slots >= 0) & (slots < len(self._open))
        known = inside & self._open[slots * inside]
        for wrong in slots[~known].tolist():
            raise ValueError(f"slot {wrong} was never opened")

    def _spans(self, plan: StepPlan, decodes: Ints) -> tuple[Ints, Ints]:
        """Where decodes and rows start, and how many tokens they have."""
        starts = np.array([row.start for row in plan.rows], np.int64)
        counts = np.array([row.num_tokens for row in plan.rows], np.int64)
        return (
            np.concatenate((self._ends[decodes], starts)),
            np.concatenate((np.ones_like(decodes), counts)),
        )

    def _check(self, slots: Ints, starts: Ints, counts: Ints) -> None:
        pages = self._num_pages[slots]
        room = np.minimum(pages * self._limits.page_size, self._limits.max_context)
        ends = starts + counts
        for wrong in np.flatnonzero((starts < 0) | (counts < 1) | (ends > room)):
            raise ValueError(
                f"slot {slots[wrong]} computes positions {starts[wrong]} to "
                f"{ends[wrong]}, but has {pages[wrong]} pages of "
                f"{self._limits.page_size} and a context of {self._limits.max_context}"
            )

    def _untouched(self, slots: Ints, starts: Ints, ends: Ints) -> Ints:
        size = self._limits.page_size
        new = (starts - 1) // size != (ends - 1) // size
        new |= self._fresh[slots]
        self._fresh[slots] = False
        cells: list[int] = []
        for place in np.flatnonzero(new & (ends % size != 0)):
            end = int(ends[place])
            page = int(self._tables[slots[place], (end - 1) // size])
            cells.extend(range(page * size + end % size, (page + 1) * size))
        return np.array(cells, np.int64)
