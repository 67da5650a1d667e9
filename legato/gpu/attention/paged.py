"""Attention for a CPU: grouped decodes, prefill chunks without a quadratic mask.

Decode rows of like length are gathered together and attended in one call. A prefill
chunk attends to itself causally and to its history fully, in two calls whose results
are joined through their log-sum-exps; a first chunk reads nothing back from the pool.
In layers with a window, a chunk that may reach beyond it is attended through a mask.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from .batch import AttentionBatch
from .cache import FP8, KvCache, read
from .tensors import Ints

# Keys of one gather: more would fall out of the cache between gather and use.
GATHER_BYTES = 4 << 20


class PagedAttention:
    """Fast on a CPU, without a compiler.

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
        cells = cache.keys.shape[3] * cache.keys.shape[4]
        self._page_bytes = cache.page_size * cells * cache.keys.element_size()

    def prepare(self, batch: AttentionBatch) -> "PagedStep":
        """Group the decodes, find each chunk's history."""
        size = self.cache.page_size
        counts = -(-batch.lengths[: batch.num_decodes] // size)
        groups = [
            DecodeGroup.of(batch, rows, self.cache, set(self.windows))
            for rows in group_rows(counts, GATHER_BYTES // self._page_bytes)
        ]
        chunks = [
            PrefillChunk.of(batch, row, size)
            for row in range(batch.num_decodes, len(batch.counts))
        ]
        return PagedStep(self.cache, self.windows, batch.cells, groups, chunks)


def group_rows(num_pages: Ints, most_pages: int) -> list[Ints]:
    """Group rows of like length so that little padding is gathered.

    Args:
        num_pages: [rows] pages of each row.
        most_pages: Of a group, padding included; a row alone may have more.
    """
    if not len(num_pages):
        return []
    order = np.argsort(-num_pages, kind="stable")
    groups: list[Ints] = []
    first = 0
    for last in range(1, len(order) + 1):
        longest = num_pages[order[first]]
        full = (last - first + 1) * longest > most_pages
        # Beyond half, padding costs more than another group's operators.
        short = last < len(order) and num_pages[order[last]] * 2 < longest - 8
        if last == len(order) or full or short:
            groups.append(np.sort(order[first:last]))
            first = last
    return groups


@dataclass(frozen=True)
class DecodeGroup:
    """Decode rows attended in one call.

    Args:
        rows: [rows] their indices among the step's tokens, or None for all of them.
        pages: [rows * pages] flat block tables, padded with each row's first page: in
            another's may be NaN, which no mask silences.
        masks: For each window, [rows, 1, 1, pages * page_size] added to scores: -inf
            beyond a length, and before the window.
    """

    rows: torch.Tensor | None
    pages: torch.Tensor
    masks: dict[int, torch.Tensor]

    @classmethod
    def of(
        cls, batch: AttentionBatch, rows: Ints, cache: KvCache, windows: Iterable[int]
    ) -> "DecodeGroup":
        """Pad the rows' tables to the longest; mask for each window there is."""
        size = cache.page_size
        lengths = batch.lengths[rows]
        width = int(-(-lengths.max() // size))
        beyond = np.arange(width) * size >= lengths[:, None]
        tables = batch.tables[rows, :width]
        tables = np.where(beyond, tables[:, :1], tables)
        places = np.arange(width * size) - lengths[:, None]
        seen = {w: (places < 0) & (places >= -w) if w else places < 0 for w in windows}
        whole = len(rows) == len(batch.counts)
        # fp8 has no infinity; who attends in another type than this converts.
        dtype = torch.float32 if cache.keys.dtype == FP8 else cache.keys.dtype
        return cls(
            None if whole else torch.asarray(rows),
            torch.asarray(tables.ravel()),
            {
                window: torch.asarray(np.where(some, 0, -np.inf)).to(dtype)[
                    :, None, None
                ]
                for window, some in seen.items()
            },
        )


@dataclass(frozen=True)
class PrefillChunk:
    """A row of several tokens.

    Args:
        tokens: Where they are among the step's tokens.
        pages: [pages] of its history, or None if it has none.
        history: Positions before it.
    """

    tokens: slice
    pages: torch.Tensor | None
    history: int

    @classmethod
    def of(cls, batch: AttentionBatch, row: int, page_size: int) -> "PrefillChunk":
        """Cut the row out of the batch."""
        first, history = int(batch.firsts[row]), int(batch.starts[row])
        pages = batch.tables[row, : -(-history // page_size)]
        return cls(
            slice(first, first + int(batch.counts[row])),
            torch.asarray(pages) if history else None,
            history,
        )


class PagedStep:
    """One step."""

    def __init__(
        self,
        cache: KvCache,
        windows: tuple[int, ...],
        cells: torch.Tensor,
        groups: list[DecodeGroup],
        chunks: list[PrefillChunk],
    ) -> None:
        self.cache = cache
        self.windows = windows
        self.cells = cells
        self.groups = groups
        self.chunks = chunks

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        self.cache.write(layer, self.cells, k, v)
        # As later steps read them: an answer must not depend on how a prompt was cut.
        k, v = self.cache.rounded(k), self.cache.rounded(v)
        if len(self.groups) == 1 and self.groups[0].rows is None:
            return self._decode(layer, q, self.groups[0])
        out = torch.empty_like(q)
        for group in self.groups:
            rows = group.rows
            assert rows is not None, "a group of all rows is alone"
            out.index_copy_(0, rows, self._decode(layer, q[rows], group))
        for chunk in self.chunks:
            part = chunk.tokens
            window = self.windows[layer]
            reaches = window and chunk.history + part.stop - part.start > window
            attend = self._prefill_windowed if reaches else self._prefill
            out[part] = attend(layer, q[part], k[part], v[part], chunk)
        return out

    def _decode(self, layer: int, q: torch.Tensor, group: DecodeGroup) -> torch.Tensor:
        rows = len(q)
        keys, values = self._gather(layer, group.pages, rows, q.dtype)
        # The query heads of one kv head stand as its query positions: no copies of
        # keys for each of them.
        folded = q.view(rows, keys.shape[1], -1, q.shape[2])
        mask = group.masks[self.windows[layer]].to(q.dtype)
        out, _ = flash(folded, keys, values, mask=mask)
        return out.reshape(q.shape)

    def _prefill(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        chunk: PrefillChunk,
    ) -> torch.Tensor:
        count, heads, head_dim = q.shape
        kv_heads = k.shape[1]
        # [kv_heads, group, tokens, head_dim]: each kv head is a batch of its queries.
        grouped = q.view(count, kv_heads, -1, head_dim).permute(1, 2, 0, 3)
        share = (kv_heads, heads // kv_heads, count, head_dim)
        keys = k.permute(1, 0, 2)[:, None].expand(share)
        values = v.permute(1, 0, 2)[:, None].expand(share)
        out, weight = flash(grouped, keys, values, causal=True)
        if chunk.pages is not None:
            keys, values = self._gather(layer, chunk.pages, 1, q.dtype)
            keys = keys[0, :, None, : chunk.history]
            values = values[0, :, None, : chunk.history]
            share = (-1, heads // kv_heads, -1, -1)
            past = flash(grouped, keys.expand(share), values.expand(share))
            out = join((out, weight), past)
        return out.permute(2, 0, 1, 3).reshape(q.shape)

    def _prefill_windowed(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        chunk: PrefillChunk,
    ) -> torch.Tensor:
        """Attend where some token's window ends within the step."""
        count, heads, head_dim = q.shape
        window, size = self.windows[layer], self.cache.page_size
        keys, values = k.permute(1, 0, 2), v.permute(1, 0, 2)
        first = chunk.history
        if chunk.pages is not None:
            page = max(chunk.history - window + 1, 0) // size
            past = self._gather(layer, chunk.pages[page:], 1, q.dtype)
            seen = chunk.history - page * size
            keys = torch.cat([past[0][0, :, :seen], keys], 1)
            values = torch.cat([past[1][0, :, :seen], values], 1)
            first = page * size
        places = torch.arange(first, chunk.history + count)
        queries = torch.arange(chunk.history, chunk.history + count)[:, None]
        hidden = (places > queries) | (places <= queries - window)
        mask = torch.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, -torch.inf)
        grouped = q.view(count, len(keys), -1, head_dim).permute(1, 2, 0, 3)
        share = (-1, heads // len(keys), -1, -1)
        keys, values = keys[:, None].expand(share), values[:, None].expand(share)
        out, _ = flash(grouped, keys, values, mask=mask)
        return out.permute(2, 0, 1, 3).reshape(q.shape)

    def _gather(
        self, layer: int, pages: torch.Tensor, rows: int, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read pages of rows into [rows, kv_heads, positions, head_dim] views."""
        heads, head_dim = self.cache.keys.shape[3:]
        shape = (rows, -1, heads, head_dim)
        keys = read(self.cache.keys[layer], pages, dtype).view(shape)
        values = read(self.cache.values[layer], pages, dtype).view(shape)
        return keys.transpose(1, 2), values.transpose(1, 2)


def flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend with torch's flash kernel for CPUs.

    Args:
        q: [batch, heads, queries, head_dim].
        k: [batch, heads, keys, head_dim]; strides of 0 share it among heads.
        v: The same.
        causal: Query i sees keys up to i.
        mask: Added to the scores, broadcast over them.

    Returns:
        The attention, as ``q``, and the scores' log-sum-exp, [batch, heads, queries].
    """
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask
    )


def join(
    one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Join attention over two sets of keys into that over both."""
    share = torch.sigmoid(other[1] - one[1]).unsqueeze(-1).to(one[0].dtype)
    return torch.lerp(one[0], other[0], share)
