"""Rows of a step that one call of a kernel attends."""

from dataclasses import dataclass
from itertools import pairwise

import torch

from .batch import AttentionBatch
from .tensors import StepTensors


@dataclass(frozen=True)
class Part:
    """Rows next to one another.

    Args:
        tokens: Their tokens among the step's.
        counts: Tokens of each row.
        cu_q: [rows + 1] int32: sums of ``counts``, from 0.
        cu_k: [rows + 1] int32: sums of ``lengths``, from 0.
        lengths: [rows] int32: positions of each row after the step.
        tables: [rows, pages] int32: block tables, wide enough for the longest row.
        max_q: At least every count.
        max_k: At least every length.
        schedule: What the kernel's own scheduler said of it, if anybody asked.
    """

    tokens: slice
    counts: tuple[int, ...]
    cu_q: torch.Tensor
    cu_k: torch.Tensor
    lengths: torch.Tensor
    tables: torch.Tensor
    max_q: int
    max_k: int
    schedule: torch.Tensor | None = None

    @classmethod
    def fixed(cls, tensors: StepTensors, page_size: int) -> "Part":
        """A decode step whose tensors change: as long as its tables allow."""
        rows, pages = tensors.tables.shape
        return cls(
            tokens=slice(0, rows),
            counts=(1,) * rows,
            cu_q=tensors.cu_q,
            cu_k=tensors.cu_k,
            lengths=tensors.lengths,
            tables=tensors.tables,
            max_q=1,
            max_k=pages * page_size,
        )

    @classmethod
    def of(cls, batch: AttentionBatch, first: int, last: int) -> "Part":
        """Cut rows out of a step, from the first up to before the last."""
        tensors = batch.placed()
        counts, lengths = batch.counts[first:last], batch.lengths[first:last]
        start = int(batch.counts[:first].sum())
        past = int(batch.lengths[:first].sum())
        cu_q, cu_k = tensors.cu_q[first : last + 1], tensors.cu_k[first : last + 1]
        return cls(
            tokens=slice(start, start + int(counts.sum())),
            counts=tuple(map(int, counts)),
            # Kernels take them to begin at 0.
            cu_q=cu_q - start if first else cu_q,
            cu_k=cu_k - past if first else cu_k,
            lengths=tensors.lengths[first:last],
            tables=tensors.tables[first:last],
            max_q=int(counts.max()),
            max_k=int(lengths.max()),
        )


def whole(batch: AttentionBatch) -> list[Part]:
    """Take a step in one call."""
    return [Part.of(batch, 0, len(batch.counts))]


def halves(batch: AttentionBatch) -> list[Part]:
    """Take a step's decodes in one call, its chunks in another."""
    edges = sorted({0, batch.num_decodes, len(batch.counts)})
    return [Part.of(batch, first, last) for first, last in pairwise(edges)]
