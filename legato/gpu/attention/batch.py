"""What every attention backend needs to know about a step.

Made once a step on the host; a backend derives its own metadata from it.
"""

from collections.abc import Callable

import msgspec
import numpy as np
import torch

from .tensors import Ints, StepTensors


class AttentionBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a step, flattened into tokens.

    Numpy arrays are on the host, tensors on the device.

    Args:
        starts: [rows] position of each row's first token; also its history's length.
        counts: [rows] tokens of each row, at least 1.
        firsts: [rows] index of each row's first token among the step's tokens.
        lengths: [rows] positions of each row after the step.
        tables: [rows, pages] block tables; beyond a row's last page anything goes.
        num_decodes: So many leading rows have exactly one token.
        positions: [tokens] int64.
        cells: [tokens] int64: where each token's keys and values go.
        tensors: All of it as kernels take it, or None on a CPU, where few want it.
    """

    starts: Ints
    counts: Ints
    firsts: Ints
    lengths: Ints
    tables: Ints
    num_decodes: int
    positions: torch.Tensor
    cells: torch.Tensor
    tensors: StepTensors | None = None

    @classmethod
    def of(
        cls,
        starts: Ints,
        counts: Ints,
        tables: Ints,
        *,
        page_size: int,
        device: torch.device,
        place: Callable[[StepTensors], StepTensors] | None = None,
    ) -> "AttentionBatch":
        """Derive the rest from starts, counts and block tables.

        Args:
            starts: As above.
            counts: As above.
            tables: As above.
            page_size: Tokens in a page.
            device: Where the tensors go.
            place: Brings them there in another way than a copy on the current stream.
        """
        firsts = np.arange(len(counts))
        rows, positions, num_decodes = firsts, starts, len(counts)
        if counts.max(initial=1) > 1:
            firsts = np.cumsum(counts) - counts
            rows = np.repeat(rows, counts)
            positions = np.arange(len(rows)) + (starts - firsts)[rows]
            num_decodes = int(np.argmax(counts > 1))
        page, offset = np.divmod(positions, page_size)
        cells = tables[rows, page] * page_size + offset
        tensors = None
        if place or device.type != "cpu":
            host = StepTensors.on_host(
                positions=positions,
                cells=cells,
                counts=counts,
                lengths=starts + counts,
                tables=tables,
            )
            tensors = place(host) if place else host.to(device)
        return cls(
            starts=starts,
            counts=counts,
            firsts=firsts,
            lengths=starts + counts,
            tables=tables,
            num_decodes=num_decodes,
            positions=tensors.positions if tensors else torch.asarray(positions),
            cells=tensors.cells if tensors else torch.asarray(cells),
            tensors=tensors,
        )

    def placed(self) -> StepTensors:
        """All of it as kernels take it."""
        return self.tensors or StepTensors.on_host(
            positions=self.positions.numpy(),
            cells=self.cells.numpy(),
            counts=self.counts,
            lengths=self.lengths,
            tables=self.tables,
        )
