"""A step's numbers on the device: one buffer, filled by one copy a step.

Captured work reads at fixed places in it: first come the rows that sample, padded to a
size that there is a graph for, then the tokens, then what only steps without a graph
have.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...protocol.steps import RunnerLimits, StepPlan
from ..tables import Layout
from .device import Device
from .sampler import SampledRows
from .slot_sampling import NUM_COLUMNS, Row
from .staging import Berth


@dataclass(frozen=True)
class Shape:
    """How a step is padded.

    Args:
        rows: That sample.
        tokens: That are computed.
    """

    rows: int
    tokens: int


@dataclass(frozen=True)
class Staged:
    """Views of the buffer, for one step.

    Args:
        rows: Those that sample, padded.
        sources: [tokens] int64: the slot whose last token this one is; -1 for none.
        given: [tokens] int64: the token where there is no such slot.
        lasts: [rows] int64: of the rows that sample, unpadded, the last tokens.
        untouched: [cells] int64, to scrub.
        opened: [slots] int64.
        numbers: [slots, columns] int64: what those slots want.
    """

    rows: SampledRows
    sources: torch.Tensor
    given: torch.Tensor
    lasts: torch.Tensor
    untouched: torch.Tensor
    opened: torch.Tensor
    numbers: torch.Tensor


class StepInputs:
    """The buffer.

    Args:
        limits: Of the runner.
        most: The largest padded step.
        device: Where it lives.
    """

    def __init__(self, limits: RunnerLimits, most: Shape, device: Device) -> None:
        self._limits = limits
        self._device = device
        slots = limits.num_slots
        self.num_words = 4 * most.rows + 2 * max(most.tokens, limits.max_step_tokens)
        self.num_words += slots * (limits.page_size + 1 + NUM_COLUMNS)
        where = device.torch_device
        self._buffer = torch.zeros(self.num_words, dtype=torch.int64, device=where)

    def rows(self, count: int) -> SampledRows:
        """Where so many rows that sample are."""
        slots, outputs, masks = self._buffer[: 3 * count].view(3, count)
        return SampledRows(slots, outputs, masks)

    def sources(self, shape: Shape) -> torch.Tensor:
        """Where the sources of a padded step's tokens are."""
        return self._buffer[3 * shape.rows :][: shape.tokens]

    def pad(self, shape: Shape) -> None:
        """Make a step all padding, now."""
        rows, nobody = self.rows(shape.rows), self._limits.num_slots
        rows.slots.fill_(nobody)
        rows.outputs.fill_(0)
        rows.masks.fill_(-1)
        self.sources(shape).fill_(nobody)

    def stage(
        self,
        berth: Berth,
        plan: StepPlan,
        layout: Layout,
        bound: Mapping[int, int],
        opened: Mapping[int, Row],
        shape: Shape,
    ) -> Staged:
        """Write a step into its berth, and queue the copy.

        Args:
            berth: Empty.
            plan: The step.
            layout: The plan's.
            bound: By place among the rows that sample, the mask that binds it.
            opened: By slot, what it wants from this step on.
            shape: How to pad it.
        """
        nobody = self._limits.num_slots
        sampling = plan.sampling_slots
        spare = shape.rows - len(sampling)
        berth.put((*sampling, *(nobody,) * spare))
        berth.put((*layout.outputs, *(0,) * spare))
        masks = berth.put((-1,) * shape.rows)
        for place, mask in bound.items():
            berth.values[masks][place] = mask
        given = [token for row in plan.rows for token in row.tokens]
        spare = shape.tokens - len(plan.decodes) - len(given)
        sources = (*plan.decodes, *(-1,) * len(given), *(nobody,) * spare)
        places = [
            berth.put(sources),
            berth.put((*(0,) * len(plan.decodes), *given, *(0,) * spare)),
            berth.put(layout.lasts),
            berth.put(layout.untouched),
            berth.put(tuple(opened)),
        ]
        first = berth.used
        for row in opened.values():
            berth.put(row)
        numbers = self._buffer[first : berth.used].view(-1, NUM_COLUMNS)
        used = slice(0, berth.used)
        self._device.compute.copy(self._buffer[used], berth.inputs[used])
        sources, given, lasts, untouched, slots = (self._buffer[one] for one in places)
        rows = self.rows(shape.rows)
        return Staged(rows, sources, given, lasts, untouched, slots, numbers)
