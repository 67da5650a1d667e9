"""The oracle: plain float32 attention, one row at a time, on any device."""

import torch

from .batch import AttentionBatch
from .cache import KvCache


class ReferenceAttention:
    """Slow and right.

    Args:
        cache: The pool.
        num_heads: Query heads.
    """

    def __init__(self, cache: KvCache, num_heads: int) -> None:
        self.cache = cache
        self.num_heads = num_heads

    def prepare(self, batch: AttentionBatch) -> "ReferenceStep":
        """Nothing is shared between layers but the batch."""
        return ReferenceStep(self.cache, batch)


class ReferenceStep:
    """One step."""

    def __init__(self, cache: KvCache, batch: AttentionBatch) -> None:
        self.cache = cache
        self.batch = batch

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        self.cache.write(layer, self.batch.cells, k, v)
        out = torch.empty_like(q)
        for row, (first, count) in enumerate(
            zip(self.batch.firsts, self.batch.counts, strict=True)
        ):
            tokens = slice(int(first), int(first + count))
            out[tokens] = self._attend_row(layer, row, q[tokens]).to(q.dtype)
        return out

    def _attend_row(self, layer: int, row: int, q: torch.Tensor) -> torch.Tensor:
        count, heads, head_dim = q.shape
        length = int(self.batch.lengths[row])
        keys, values = self._history(layer, row, length)
        group = heads // keys.shape[1]
        keys = keys.repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q.float(), keys) * head_dim**-0.5
        queries = torch.arange(length - count, length, device=q.device)
        future = torch.arange(length, device=q.device) > queries[:, None]
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values)

    def _history(
        self, layer: int, row: int, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        pages = torch.asarray(self.batch.tables[row]).to(self.cache.keys.device)
        pages = pages[: -(-length // self.cache.page_size)]
        keys = self.cache.keys[layer, pages].flatten(0, 1)[:length]
        values = self.cache.values[layer, pages].flatten(0, 1)[:length]
        return keys.float(), values.float()
