"""Steps over a cache with a past, and what dense float32 attention makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from legato.gpu.attention import AttentionBackend, AttentionBatch, KvCache
from legato.gpu.attention.tensors import Ints

LAYER = 1
Rows = Sequence[tuple[int, int]]  # positions before the step, tokens in it


def dense(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int
) -> torch.Tensor:
    """Attend the last len(q) positions of one sequence, head by head."""
    out = torch.empty_like(q)
    for head in range(q.shape[1]):
        shared = head * k.shape[1] // q.shape[1]
        scores = q[:, head] @ k[:, shared].T / q.shape[2] ** 0.5
        past = len(k) - len(q)
        seen = torch.ones_like(scores).tril(past).bool()
        if window:
            seen &= torch.ones_like(scores).triu(past - window + 1).bool()
        weights = torch.where(seen, scores, -torch.inf).softmax(1)
        out[:, head] = weights @ v[:, shared]
    return out


def some_rows(longest: int, *, most: int = 6) -> st.SearchStrategy[Rows]:
    """Decodes first, then chunks; at least one row."""
    start = st.integers(0, longest)
    chunk = st.tuples(st.integers(0, longest), st.integers(1, 40))
    return st.tuples(
        st.lists(start, max_size=most), st.lists(chunk, max_size=most // 2)
    ).map(
        lambda parts: [(start, 1) for start in parts[0]] + (parts[1] or [(longest, 7)])
    ) | st.lists(start, min_size=1, max_size=most).map(
        lambda starts: [(start, 1) for start in starts]
    )


@dataclass
class Scene:
    """A step of some rows, whose pasts lie in pages in a random order.

    Cells that no row has reached hold NaN beyond the rows' own pages, and zeros in
    them, as a runner leaves them.
    """

    cache: KvCache
    batch: AttentionBatch
    tables: Ints
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    want: torch.Tensor
    spare_page: int

    @classmethod
    def make(
        cls,
        rows: Rows,
        *,
        kv_heads: int = 2,
        group: int = 2,
        head_dim: int = 16,
        page_size: int = 4,
        window: int = 0,
        dtype: torch.dtype = torch.float32,
        kv_dtype: torch.dtype | None = None,
        rounds_queries: bool = False,
        device: torch.device | None = None,
        seed: int = 0,
        spare_pages: int = 3,
    ) -> "Scene":
        random = torch.Generator().manual_seed(seed)
        device = device or torch.device("cpu")

        def normal(count: int, heads: int) -> torch.Tensor:
            return torch.randn(count, heads, head_dim, generator=random).to(dtype)

        starts, counts = np.array(rows, np.int64).T
        cache, tables, spare = pool(
            *(starts + counts, page_size, spare_pages, kv_heads, head_dim),
            *(kv_dtype or dtype, seed),
        )
        q, k, v, want = [], [], [], []
        for (start, count), table in zip(rows, tables, strict=True):
            keys, values = (normal(start + count, kv_heads) for _ in range(2))
            places = torch.arange(start)
            pages = torch.as_tensor(table)[places // page_size]
            cells = pages * page_size + places % page_size
            cache.write(LAYER, cells, keys[:start], values[:start])
            q.append(normal(count, kv_heads * group))
            k.append(keys[start:])
            v.append(values[start:])
            past = (cache.rounded(one).float() for one in (keys, values))
            asked = cache.rounded(q[-1]) if rounds_queries else q[-1]
            want.append(dense(asked.float(), *past, window))
        cache.keys, cache.values = cache.keys.to(device), cache.values.to(device)
        shape = cache.key_cells.shape
        cache.key_cells, cache.value_cells = (
            cache.keys.view(shape),
            cache.values.view(shape),
        )
        batch = AttentionBatch.of(
            starts, counts, tables, page_size=page_size, device=device
        )
        # Within one tensor, as a model's projection makes them.
        fused = torch.cat([torch.cat(part) for part in (q, k, v)], 1).to(device)
        parts = fused.split([kv_heads * group, kv_heads, kv_heads], 1)
        wanted = torch.cat(want).to(device)
        return cls(cache, batch, tables, *parts, wanted, spare_page=spare)

    @property
    def num_heads(self) -> int:
        return self.q.shape[1]

    def attend(self, backend: AttentionBackend) -> torch.Tensor:
        return backend.prepare(self.batch).attend(LAYER, self.q, self.k, self.v)

    def check(self, got: torch.Tensor) -> None:
        """Compare, and see that no other layer was touched."""
        tolerance = 2e-5 if self.q.dtype is torch.float32 else 3e-2
        torch.testing.assert_close(
            got.float(), self.want, atol=tolerance, rtol=tolerance
        )
        other = self.cache.keys[0].float()
        assert not other.nan_to_num().any(), "another layer was written"


def pool(
    lengths: Ints,
    page_size: int,
    spare_pages: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    seed: int,
) -> tuple[KvCache, Ints, int]:
    """Make a cache, block tables, a spare page; all that is nobody's is NaN."""
    widths = -(-lengths // page_size)
    num_pages = int(widths.sum()) + spare_pages
    free = np.random.default_rng(seed).permutation(num_pages)
    # Beyond a row's pages: pages that are nobody's.
    tables = np.full((len(lengths), widths.max()), free[-1], np.int64)
    cache = KvCache(
        num_layers=2,
        num_pages=num_pages,
        page_size=page_size,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
        device=torch.device("cpu"),
    )
    for row, width in enumerate(widths):
        tables[row, :width], free = free[:width], free[width:]
    cache.keys[:, free] = cache.values[:, free] = torch.nan
    return cache, tables, int(free[0])
