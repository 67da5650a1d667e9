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
    """A plan's rows, decodes first.

    Args:
        slots: [rows] int64.
        starts: [rows] position of each row's first token.
        counts: [rows] tokens of each row.
        tables: [rows, pages] block tables, as wide as the longest row needs.
        samples: The rows that sample, by place.
        lasts: For each of those, the last of its tokens among the step's.
        outputs: For each of those, the number of the output token it samples.
        untouched: [cells] cells after the end of pages that are new to their slot in
            this step.
    """

    slots: Ints
    starts: Ints
    counts: Ints
    tables: Ints
    samples: tuple[int, ...]
    lasts: Ints
    outputs: tuple[int, ...]
    untouched: Ints


@dataclass(frozen=True)
class Decodes:
    """A plan's decodes, and what is the same of all steps that have them.

    Args:
        plan: As the plan has them.
        slots: [rows] int64.
        counts: [rows] ones.
        places: [rows] 0, 1, 2 and so on.
        samples: The same.
    """

    plan: tuple[int, ...]
    slots: Ints
    counts: Ints
    places: Ints
    samples: tuple[int, ...]

    @classmethod
    def of(cls, plan: tuple[int, ...]) -> "Decodes":
        """Make arrays of them."""
        slots, places = np.array(plan, np.int64), np.arange(len(plan))
        return cls(plan, slots, np.ones_like(slots), places, tuple(range(len(plan))))


class BlockTables:
    """The pages of every slot.

    Args:
        limits: How many slots, of how many pages.

    ``pages`` [slots, pages] are the block tables, ``ends`` [slots] how far each has
    come, ``room`` [slots] how far its pages and the context let it, ``prompts`` [slots]
    how long its prompt is.
    """

    def __init__(self, limits: RunnerLimits) -> None:
        self._limits = limits
        most_pages = -(-limits.max_context // limits.page_size)
        self.pages = np.zeros((limits.num_slots, most_pages), np.int64)
        self._num_pages, self.room, self.ends, self.prompts = np.zeros(
            (4, limits.num_slots), np.int64
        )
        self._open = np.zeros(limits.num_slots, np.bool_)
        self._fresh: set[int] = set()
        # While nobody comes or goes, every plan carries the same tuple.
        self._decodes = Decodes.of(())

    @property
    def most_pages(self) -> int:
        """Pages of the longest context."""
        return self.pages.shape[1]

    def open(self, opened: SlotOpen) -> None:
        """Give a slot to a sequence, forgetting the one before.

        Raises:
            ValueError: The slot or a page is outside the limits.
        """
        slot = opened.slot
        if not 0 <= slot < self._limits.num_slots:
            raise ValueError(f"slot {slot} of {self._limits.num_slots}")
        self._open[slot] = True
        self._fresh.add(slot)
        self._num_pages[slot] = self.room[slot] = self.ends[slot] = 0
        self.prompts[slot] = opened.prompt_tokens
        self._append(slot, opened.pages)

    def enter(self, plan: StepPlan) -> Layout:
        """Append new pages, and lay decodes and rows out.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        decodes = self.grow(plan)
        starts = self.ends[decodes.slots]
        if not plan.rows:
            return self._lay_out(
                *(decodes.slots, starts, decodes.counts),
                *(decodes.samples, decodes.places),
            )
        rows = np.array([row.slot for row in plan.rows], np.int64)
        self._check_open(rows)
        for row in plan.rows:
            self._append(row.slot, row.pages)
        slots = np.concatenate((decodes.slots, rows))
        starts = np.concatenate((starts, [row.start for row in plan.rows]))
        counts = [row.num_tokens for row in plan.rows]
        counts = np.concatenate((decodes.counts, counts))
        first = len(plan.decodes)
        some = [n for n, row in enumerate(plan.rows, first) if row.samples]
        samples = (*decodes.samples, *some)
        lasts = (counts.cumsum() - 1)[list(samples)]
        return self._lay_out(slots, starts, counts, samples, lasts)

    def grow(self, plan: StepPlan) -> Decodes:
        """Append new pages of decodes.

        Raises:
            ValueError: A slot was never opened, or a page is outside the pool.
        """
        if plan.decodes is not self._decodes.plan:
            decodes = Decodes.of(plan.decodes)
            self._check_open(decodes.slots)
            self._decodes = decodes
        for slot, page in plan.grown:
            self._append(slot, (page,))
        return self._decodes

    def clear(self) -> None:
        """Forget every sequence."""
        self._open[:] = False
        self._decodes = Decodes.of(())

    def _lay_out(
        self,
        slots: Ints,
        starts: Ints,
        counts: Ints,
        samples: tuple[int, ...],
        lasts: Ints,
    ) -> Layout:
        """Let slots come as far as the step takes them."""
        ends = starts + counts
        self._check(slots, starts, counts, ends)
        self.ends[slots] = ends
        width = int(-(-ends.max(initial=0) // self._limits.page_size))
        outputs = ends - self.prompts[slots]
        if len(samples) < len(slots):
            outputs = outputs[list(samples)]
        return Layout(
            slots=slots,
            starts=starts,
            counts=counts,
            tables=self.pages[slots, :width],
            samples=samples,
            lasts=lasts,
            outputs=tuple(outputs.tolist()),
            untouched=self._untouched(slots, starts, ends),
        )

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
        if end > self.pages.shape[1]:
            raise ValueError(f"{end} pages are more than a context has")
        self.pages[slot, held:end] = pages
        self._num_pages[slot] = end
        room = end * self._limits.page_size
        self.room[slot] = min(room, self._limits.max_context)

    def _check_open(self, slots: Ints) -> None:
        inside = (slots >= 0) & (slots < len(self._open))
        known = inside & self._open[slots * inside]
        for wrong in slots[~known].tolist():
            raise ValueError(f"slot {wrong} was never opened")

    def _check(self, slots: Ints, starts: Ints, counts: Ints, ends: Ints) -> None:
        broken = (ends > self.room[slots]) | (starts < 0) | (counts < 1)
        if not broken.any():
            return
        wrong = int(broken.argmax())
        raise self.out_of_room(int(slots[wrong]), int(starts[wrong]), int(ends[wrong]))

    def out_of_room(self, slot: int, start: int, end: int) -> ValueError:
        """Say that a slot computes positions that it has no pages for."""
        return ValueError(
            f"slot {slot} computes positions {start} to {end}, but has "
            f"{self._num_pages[slot]} pages of {self._limits.page_size} and a context "
            f"of {self._limits.max_context}"
        )

    def _untouched(self, slots: Ints, starts: Ints, ends: Ints) -> Ints:
        size = self._limits.page_size
        new = (starts - 1) // size != (ends - 1) // size
        if self._fresh:
            new |= np.isin(slots, list(self._fresh))
            self._fresh.difference_update(slots.tolist())
        cells: list[int] = []
        if new.any():
            for place in np.flatnonzero(new & (ends % size != 0)):
                end = int(ends[place])
                page = int(self.pages[slots[place], (end - 1) // size])
                cells.extend(range(page * size + end % size, (page + 1) * size))
        return np.array(cells, np.int64)
