"""What the device keeps for each slot between steps.

Owns block tables, the future buffer and sampling state; a plan brings only changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..protocol.steps import RowSampling, RunnerLimits, SlotOpen, StepPlan
from .attention import AttentionBatch
from .grammar import Grammars, matcher_of
from .sampling import SampleRow, Scoring, SlotWishes, scored_rows
from .tables import BlockTables

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
        scoring: Wants log-probabilities of tokens that are given, or None.
    """

    ids: torch.Tensor
    batch: AttentionBatch
    sampling: torch.Tensor
    rows: tuple[SampleRow, ...]
    untouched: torch.Tensor
    scoring: Scoring | None = None


class Slots:
    """The slots of a runner.

    Args:
        limits: How many, of how many pages.
        device: Where the future buffer lives.
    """

    def __init__(self, limits: RunnerLimits, device: torch.device) -> None:
        self._limits = limits
        self._device = device
        self.tables = BlockTables(limits)
        self._wishes: dict[int, SlotWishes] = {}
        # While nobody comes or goes, every plan carries the same tuple of decodes.
        self._decodes: tuple[tuple[int, ...], torch.Tensor] = (
            (),
            self._on_device(np.zeros(0, np.int64)),
        )
        self.grammars: Grammars | None = None
        self.future = torch.zeros(limits.num_slots, dtype=torch.int64, device=device)

    def open(self, opened: SlotOpen) -> None:
        """Give a slot to a sequence, forgetting the one before.

        Raises:
            ValueError: The slot or a page is outside the limits, or it has a grammar
                and the runner was not equipped for that.
        """
        self.tables.open(opened)
        self._wishes[opened.slot] = SlotWishes(
            opened.sampling,
            prompt_tokens=opened.prompt_tokens,
            history=opened.history,
            vocab_size=self._limits.vocab_size,
            device=self._device,
            matcher=matcher_of(opened, self.grammars),
        )

    def enter(self, plan: StepPlan) -> StepInputs:
        """Append new pages, and lay decodes and rows out as tensors.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        layout = self.tables.enter(plan)
        batch = AttentionBatch.of(
            layout.starts,
            layout.counts,
            layout.tables,
            page_size=self._limits.page_size,
            device=self._device,
        )
        scored = scored_rows(plan, self._num_likeliest)
        return StepInputs(
            ids=self._ids(plan),
            batch=batch,
            sampling=self._on_device(layout.lasts),
            rows=tuple(
                SampleRow(slot, output, self._wishes[slot])
                for slot, output in zip(
                    plan.sampling_slots, layout.outputs, strict=True
                )
            ),
            untouched=self._on_device(layout.untouched),
            scoring=Scoring(scored, self._device) if scored else None,
        )

    def keep(self, rows: Sequence[SampleRow], tokens: Sequence[int]) -> None:
        """Put sampled tokens into the future buffer."""
        slots = self._slots_of(tuple(row.slot for row in rows))
        values = self._on_device(np.array(tokens, np.int64))
        self.future.index_copy_(0, slots, values)

    def simple_wishes(self, slots: Sequence[int]) -> list[RowSampling] | None:
        """What slots wish, if all take their logits as they are and report nothing."""
        wishes = [self._wishes.get(slot) for slot in slots]
        if not all(wish and wish.is_simple for wish in wishes):
            return None
        return [wish.sampling for wish in wishes if wish]

    def clear(self) -> None:
        """Forget every sequence."""
        self.tables.clear()
        self._wishes.clear()

    def _num_likeliest(self, slot: int) -> int:
        return self._wishes[slot].sampling.prompt_logprobs

    def _ids(self, plan: StepPlan) -> torch.Tensor:
        given = [token for row in plan.rows for token in row.tokens]
        ids = self._on_device(np.array(given, np.int64))
        if plan.decodes:
            sampled = self.future.take(self._slots_of(plan.decodes))
            ids = torch.cat((sampled, ids)) if given else sampled
        return ids

    def _slots_of(self, decodes: tuple[int, ...]) -> torch.Tensor:
        if decodes != self._decodes[0]:
            self._decodes = decodes, self._on_device(np.array(decodes, np.int64))
        return self._decodes[1]

    def _on_device(self, values: Ints) -> torch.Tensor:
        return torch.asarray(values).to(self._device, non_blocking=True)
