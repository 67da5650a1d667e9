"""The oracle: plain float32 attention, one row at a time, on any device."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .batch import AttentionBatch
from .cache import KvCache, read
from .static import StaticStep
from .tensors import StepTensors


class ReferenceAttention:
    """Slow and right.

    Args:
        cache: The pool.
        num_heads: Query heads.
        windows: Of each layer, 0 for the whole past; none at all if empty.
    """

    def __init__(
        self, cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> None:
        self.cache = cache
        self.num_heads = num_heads
        self.windows = windows or (0,) * len(cache.keys)

    def prepare(self, batch: AttentionBatch) -> "ReferenceStep":
        """Cut each row's tokens and pages out."""
        size = self.cache.page_size
        tables = torch.asarray(batch.tables).to(self.cache.keys.device)
        spans = zip(batch.firsts, batch.counts, batch.lengths, tables, strict=True)
        rows = [
            ReferenceRow(
                slice(int(first), int(first + count)),
                table[: -(-int(length) // size)],
                int(length),
            )
            for first, count, length, table in spans
        ]
        return ReferenceStep(self, batch.cells, rows)

    def reserve(self, rows: int, pages: int, spare_page: int) -> StaticStep:
        """Reserve a decode step that reads whole tables, whatever a row's length."""
        return StaticStep(self.cache, rows, pages, spare_page, self._bind)

    def _bind(self, tensors: StepTensors) -> "ReferenceStep":
        rows = [
            ReferenceRow(slice(row, row + 1), table, length)
            for row, (table, length) in enumerate(
                zip(tensors.tables, tensors.lengths, strict=True)
            )
        ]
        return ReferenceStep(self, tensors.cells, rows)


@dataclass(frozen=True)
class ReferenceRow:
    """A row of a step.

    Args:
        tokens: Its tokens among the step's.
        pages: Its pages, and maybe others beyond its end.
        length: Positions after the step; a tensor where it may change.
    """

    tokens: slice
    pages: torch.Tensor
    length: int | torch.Tensor


class ReferenceStep:
    """One step."""

    def __init__(
        self,
        backend: ReferenceAttention,
        cells: torch.Tensor,
        rows: Sequence[ReferenceRow],
    ) -> None:
        self._backend = backend
        self._cells = cells
        self._rows = rows

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        self._backend.cache.write(layer, self._cells, k, v)
        out = torch.empty_like(q)
        for row in self._rows:
            attended = self._attend_row(layer, row, q[row.tokens])
            out[row.tokens] = attended.to(q.dtype)
        return out

    def _attend_row(
        self, layer: int, row: ReferenceRow, q: torch.Tensor
    ) -> torch.Tensor:
        cache, window = self._backend.cache, self._backend.windows[layer]
        count, heads, head_dim = q.shape
        keys = read(cache.keys[layer], row.pages, torch.float32).flatten(0, 1)
        values = read(cache.values[layer], row.pages, torch.float32).flatten(0, 1)
        places = torch.arange(len(keys), device=q.device)
        queries = row.length - count + torch.arange(count, device=q.device)
        hidden = places > queries[:, None]
        if window:
            hidden |= places <= queries[:, None] - window
        # Beyond a row's end may be anything, and no weight silences a NaN.
        values = values.masked_fill(hidden.all(0)[:, None, None], 0.0)
        group = heads // keys.shape[1]
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q.float(), keys) * head_dim**-0.5
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values)
