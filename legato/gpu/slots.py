"""What the device keeps for each slot between steps.

Owns block tables, the future buffer and sampling state; a plan brings only changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..protocol.steps import RunnerLimits, SlotOpen, StepPlan
from .attention import AttentionBatch
from .grammar import Grammars, matcher_of
from .sampling import SampleRow, SlotWishes

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StepInputs:
    """A plan, as the model takes it.

    Args:
        ids: [tokens] int64.
        batch: For attention.
        sampling: [sampling rows] int64, the last token of each row that samples.
        rows: Those rows.
        untouched: [cells] int64: cells after the end of pages that are new to their
            slot in this step.
    """

    ids: torch.Tensor
    batch: AttentionBatch
    sampling: torch.Tensor
    rows: tuple[SampleRow, ...]
    untouched: torch.Tensor


@dataclass
class _Slot:
    wishes: SlotWishes
    prompt_tokens: int
    fresh: bool = True


class Slots:
    """The slots of a runner.

    Args:
        limits: How many, of how many pages.
        device: Where the future buffer lives.
    """

    def __init__(self, limits: RunnerLimits, device: torch.device) -> None:
        self._limits = limits
        self._device = device
        most_pages = -(-limits.max_context // limits.page_size)
        self._tables = np.zeros((limits.num_slots, most_pages), np.int64)
        self._num_pages = np.zeros(limits.num_slots, np.int64)
        self._ends = np.zeros(limits.num_slots, np.int64)
        self._slots: dict[int, _Slot] = {}
        self.grammars: Grammars | None = None
        self.future = torch.zeros(limits.num_slots, dtype=torch.int64, device=device)

    def open(self, opened: SlotOpen) -> None:
        """Give a slot to a sequence, forgetting the one before.

        Raises:
            ValueError: The slot or a page is outside the limits, or it has a grammar
                and the runner was not equipped for that.
        """
        if not 0 <= opened.slot < self._limits.num_slots:
            raise ValueError(f"slot {opened.slot} of {self._limits.num_slots}")
        wishes = SlotWishes(
            opened.sampling,
            prompt_tokens=opened.prompt_tokens,
            history=opened.history,
            vocab_size=self._limits.vocab_size,
            device=self._device,
            matcher=matcher_of(opened, self.grammars),
        )
        self._slots[opened.slot] = _Slot(wishes, opened.prompt_tokens)
        self._num_pages[opened.slot] = self._ends[opened.slot] = 0
        self._append(opened.slot, opened.pages)

    def enter(self, plan: StepPlan) -> StepInputs:
        """Append new pages, and lay decodes and rows out as tensors.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        for slot in plan.slots:
            self._state(slot)
        for slot, page in plan.grown:
            self._append(slot, (page,))
        for row in plan.rows:
            self._append(row.slot, row.pages)
        starts, counts = self._spans(plan)
        self._check(plan, starts, counts)
        slots = np.array(plan.slots, np.int64)
        ends = self._ends[slots] = starts + counts
        width = int(-(-ends.max() // self._limits.page_size))
        batch = AttentionBatch.of(
            starts,
            counts,
            self._tables[slots, :width],
            page_size=self._limits.page_size,
            device=self._device,
        )
        lasts = batch.firsts + counts - 1
        decodes = len(plan.decodes)
        samples = [*range(decodes)]
        samples += [n for n, row in enumerate(plan.rows, decodes) if row.samples]
        return StepInputs(
            ids=self._ids(plan),
            batch=batch,
            sampling=self._on_device(lasts[samples]),
            rows=tuple(self._sample_row(int(slots[n]), int(ends[n])) for n in samples),
            untouched=self._on_device(self._untouched(slots, starts, ends)),
        )

    def keep(self, rows: Sequence[SampleRow], tokens: Sequence[int]) -> None:
        """Put sampled tokens into the future buffer."""
        slots = self._on_device(np.array([row.slot for row in rows], np.int64))
        values = self._on_device(np.array(tokens, np.int64))
        self.future.index_copy_(0, slots, values)

    def clear(self) -> None:
        """Forget every sequence."""
        self._slots.clear()

    def _append(self, slot: int, pages: tuple[int, ...]) -> None:
        if not pages:
            return
        if min(pages) < 0 or max(pages) >= self._limits.num_pages:
            raise ValueError(
                f"a page of {pages} is outside the pool of {self._limits.num_pages}"
            )
        self._state(slot)
        held = int(self._num_pages[slot])
        end = held + len(pages)
        if end > self._tables.shape[1]:
            raise ValueError(f"{end} pages are more than a context has")
        self._tables[slot, held:end] = pages
        self._num_pages[slot] = end

    def _state(self, slot: int) -> _Slot:
        state = self._slots.get(slot)
        if state is None:
            raise ValueError(f"slot {slot} was never opened")
        return state

    def _spans(self, plan: StepPlan) -> tuple[Ints, Ints]:
        """Where decodes and rows start, and how many tokens they have."""
        decodes = self._ends[np.array(plan.decodes, np.int64)]
        starts = np.array([row.start for row in plan.rows], np.int64)
        counts = np.array([row.num_tokens for row in plan.rows], np.int64)
        return (
            np.concatenate((decodes, starts)),
            np.concatenate((np.ones_like(decodes), counts)),
        )

    def _check(self, plan: StepPlan, starts: Ints, counts: Ints) -> None:
        slots = plan.slots
        pages = self._num_pages[np.array(slots, np.int64)]
        room = np.minimum(pages * self._limits.page_size, self._limits.max_context)
        ends = starts + counts
        for wrong in np.flatnonzero((starts < 0) | (counts < 1) | (ends > room)):
            raise ValueError(
                f"slot {slots[wrong]} computes positions {starts[wrong]} to "
                f"{ends[wrong]}, but has {pages[wrong]} pages of "
                f"{self._limits.page_size} and a context of {self._limits.max_context}"
            )

    def _sample_row(self, slot: int, end: int) -> SampleRow:
        state = self._slots[slot]
        return SampleRow(slot, end - state.prompt_tokens, state.wishes)

    def _ids(self, plan: StepPlan) -> torch.Tensor:
        decodes = len(plan.decodes)
        given = [token for row in plan.rows for token in row.tokens]
        ids = self._on_device(np.array([0] * decodes + given, np.int64))
        if decodes:
            slots = self._on_device(np.array(plan.decodes, np.int64))
            ids[:decodes] = self.future[slots]
        return ids

    def _untouched(self, slots: Ints, starts: Ints, ends: Ints) -> Ints:
        size = self._limits.page_size
        new = (starts - 1) // size != (ends - 1) // size
        for place, slot in enumerate(slots.tolist()):
            state = self._slots[slot]
            new[place] |= state.fresh
            state.fresh = False
        cells: list[int] = []
        for place in np.flatnonzero(new & (ends % size != 0)):
            end = int(ends[place])
            page = int(self._tables[slots[place], (end - 1) // size])
            cells.extend(range(page * size + end % size, (page + 1) * size))
        return np.array(cells, np.int64)

    def _on_device(self, values: Ints) -> torch.Tensor:
        return torch.asarray(values).to(self._device, non_blocking=True)
