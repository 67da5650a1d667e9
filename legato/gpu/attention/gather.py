"""Attention by torch's own dot product over gathered pages.

The last resort: it runs on every torch, for every head and type, on any device. Keys
and values are copied out of their pages first, a bounded number of bytes at a time. It
is not captured: a graph would copy whole contexts, whatever the rows' lengths.
"""

import torch
from torch.nn import functional

from .cache import KvCache, read
from .kernel import KernelAttention
from .offer import Offer
from .part import Part

GATHER_BYTES = 256 << 20


def gather(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    part: Part,
    window: int,
) -> torch.Tensor:
    """Attend as ``Call`` says."""
    page_size = keys.shape[1]
    ends = torch.arange(part.tables.shape[1], device=q.device) * page_size
    # What follows a row's end may hold anything, and no weight silences a NaN: its own
    # first page stands there instead.
    tables = torch.where(ends < part.lengths[:, None], part.tables, part.tables[:, :1])
    if part.max_q == 1:
        return _decode(q, keys, values, tables, part, window)
    outs: list[torch.Tensor] = []
    first, kv_heads = 0, keys.shape[2]
    for row, count in enumerate(part.counts):
        pages, length = tables[row : row + 1], part.lengths[row]
        some, first = q[first : first + count], first + count
        queries = length - count + torch.arange(count, device=q.device)
        # [kv_heads, heads of each, tokens, head_dim]: no key is copied for a head.
        grouped = some.view(count, kv_heads, -1, q.shape[2]).permute(1, 2, 0, 3)
        share = (-1, grouped.shape[1], -1, -1)
        k, v = (_read(pool, pages, q).transpose(0, 1) for pool in (keys, values))
        mask = _seen(queries, k.shape[2], window)
        out = _attend(grouped, k.expand(share), v.expand(share), mask)
        outs.append(out.permute(2, 0, 1, 3).reshape(some.shape))
    return torch.cat(outs)


def _decode(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tables: torch.Tensor,
    part: Part,
    window: int,
) -> torch.Tensor:
    row_bytes = 2 * tables.shape[1] * keys[0].numel() * q.element_size()
    most = max(GATHER_BYTES // row_bytes, 1)
    outs: list[torch.Tensor] = []
    for first in range(0, len(q), most):
        rows = slice(first, first + most)
        some, pages = q[rows], tables[rows]
        k, v = _read(keys, pages, q), _read(values, pages, q)
        # The query heads of one key head stand as its query positions.
        folded = some.view(len(some), k.shape[1], -1, q.shape[2])
        mask = _seen(part.lengths[rows] - 1, k.shape[2], window)[:, None, None]
        outs.append(_attend(folded, k, v, mask).reshape(some.shape))
    return torch.cat(outs)


def _read(pool: torch.Tensor, tables: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Read pages of rows into [rows, kv_heads, positions, head_dim], in q's type."""
    _, _, kv_heads, head_dim = pool.shape
    pages = read(pool, tables.flatten(), q.dtype)
    return pages.view(len(tables), -1, kv_heads, head_dim).transpose(1, 2)


def _seen(queries: torch.Tensor, width: int, window: int) -> torch.Tensor:
    """Say which positions each query sees, [queries, width]."""
    places = torch.arange(width, device=queries.device)
    seen = places <= queries[:, None]
    return seen & (places > queries[:, None] - window) if window else seen


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def look(device: torch.device) -> tuple[Offer, ...]:
    """Offer it on CUDA; CPUs have better."""
    if device.type != "cuda":
        return ()

    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> KernelAttention:
        return KernelAttention(cache, windows, gather, splits=True)

    what = "torch's dot product over gathered pages, slow"
    return (Offer(what, build, reads_fp8=True, is_tried=True),)
