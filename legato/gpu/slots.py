"""What the device keeps for each slot between steps.

Owns block tables, the future buffer and sampling state; a plan brings only changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..protocol.steps import RunnerLimits, SlotOpen, StepPlan, StepRow
from .attention import AttentionBatch
from .sampling import SampleRow, SlotWishes


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
    num_pages: int = 0
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
        self._slots: dict[int, _Slot] = {}
        self.future = torch.zeros(limits.num_slots, dtype=torch.int64, device=device)

    def open(self, opened: SlotOpen) -> None:
        """Give a slot to a sequence, forgetting the one before.

        Raises:
            ValueError: The slot or a page is outside the limits.
        """
        if not 0 <= opened.slot < self._limits.num_slots:
            raise ValueError(f"slot {opened.slot} of {self._limits.num_slots}")
        wishes = SlotWishes(
            opened.sampling,
            prompt_tokens=opened.prompt_tokens,
            history=opened.history,
            vocab_size=self._limits.vocab_size,
            device=self._device,
        )
        self._slots[opened.slot] = _Slot(wishes, opened.prompt_tokens)
        self._append(opened.slot, opened.pages)

    def enter(self, plan: StepPlan) -> StepInputs:
        """Append the rows' pages, and lay the rows out as tensors.

        Raises:
            ValueError: A row's slot was never opened, or it has no page for a position.
        """
        rows = plan.rows
        for row in rows:
            if row.slot not in self._slots:
                raise ValueError(f"slot {row.slot} was never opened")
            self._append(row.slot, row.pages)
            self._check(row)
        starts = np.array([row.start for row in rows], np.int64)
        counts = np.array([row.num_tokens for row in rows], np.int64)
        lengths = starts + counts
        slots = [row.slot for row in rows]
        width = int(-(-lengths.max() // self._limits.page_size))
        batch = AttentionBatch.of(
            starts,
            counts,
            self._tables[slots, :width],
            page_size=self._limits.page_size,
            device=self._device,
        )
        lasts = batch.firsts + counts - 1
        samples = [index for index, row in enumerate(rows) if row.samples]
        return StepInputs(
            ids=self._ids(rows, batch),
            batch=batch,
            sampling=self._on_device(lasts[samples]),
            rows=tuple(self._sample_row(rows[index]) for index in samples),
            untouched=self._on_device(self._untouched(rows)),
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
        state = self._slots[slot]
        end = state.num_pages + len(pages)
        if end > self._tables.shape[1]:
            raise ValueError(f"{end} pages are more than a context has")
        self._tables[slot, state.num_pages : end] = pages
        state.num_pages = end

    def _check(self, row: StepRow) -> None:
        end = row.start + row.num_tokens
        room = self._slots[row.slot].num_pages * self._limits.page_size
        if not 0 <= row.start < end <= min(room, self._limits.max_context):
            raise ValueError(
                f"slot {row.slot} computes positions {row.start} to {end}, but has "
                f"pages for {room} and a context of {self._limits.max_context}"
            )

    def _sample_row(self, row: StepRow) -> SampleRow:
        state = self._slots[row.slot]
        output = row.start + row.num_tokens - state.prompt_tokens
        return SampleRow(row.slot, output, state.wishes)

    def _ids(self, rows: Sequence[StepRow], batch: AttentionBatch) -> torch.Tensor:
        given = [token for row in rows for token in row.tokens or (0,)]
        ids = self._on_device(np.array(given, np.int64))
        awaited = [index for index, row in enumerate(rows) if not row.tokens]
        if awaited:
            places = self._on_device(batch.firsts[awaited])
            slots = np.array([rows[index].slot for index in awaited], np.int64)
            ids.index_copy_(0, places, self.future[self._on_device(slots)])
        return ids

    def _untouched(self, rows: Sequence[StepRow]) -> npt.NDArray[np.int64]:
        size = self._limits.page_size
        cells: list[int] = []
        for row in rows:
            state = self._slots[row.slot]
            end = row.start + row.num_tokens
            new = state.fresh or (row.start - 1) // size != (end - 1) // size
            if new and end % size:
                page = int(self._tables[row.slot, (end - 1) // size])
                cells.extend(range(page * size + end % size, (page + 1) * size))
            state.fresh = False
        return np.array(cells, np.int64)

    def _on_device(self, values: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.asarray(values).to(self._device, non_blocking=True)
