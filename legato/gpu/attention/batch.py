"""What every attention backend needs to know about a step.

Made once a step on the host; a backend derives its own metadata from it.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import torch

Ints = npt.NDArray[np.int64]


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
    """

    starts: Ints
    counts: Ints
    firsts: Ints
    lengths: Ints
    tables: Ints
    num_decodes: int
    positions: torch.Tensor
    cells: torch.Tensor

    @classmethod
    def of(
        cls,
        starts: Ints,
        counts: Ints,
        tables: Ints,
        *,
        page_size: int,
        device: torch.device,
    ) -> "AttentionBatch":
        """Derive the rest from starts, counts and block tables."""
        firsts = np.cumsum(counts) - counts
        rows = np.repeat(np.arange(len(counts)), counts)
        positions = np.arange(len(rows)) + (starts - firsts)[rows]
        pages = tables[rows, positions // page_size]
        cells = pages * page_size + positions % page_size
        longer = np.flatnonzero(counts != 1)
        return cls(
            starts=starts,
            counts=counts,
            firsts=firsts,
            lengths=starts + counts,
            tables=tables,
            num_decodes=int(longer[0]) if len(longer) else len(counts),
            positions=torch.asarray(positions).to(device, non_blocking=True),
            cells=torch.asarray(cells).to(device, non_blocking=True),
        )
