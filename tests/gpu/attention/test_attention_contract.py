"""Every attention backend that runs here, against dense float32 attention."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.attention import (
    ATTENTION_BACKENDS,
    AttentionBatch,
    KvCache,
    choose_attention,
)

CPU = torch.device("cpu")
LAYER = 1


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend the last len(q) positions of one sequence, head by head."""
    out = torch.empty_like(q)
    for head in range(q.shape[1]):
        shared = head * k.shape[1] // q.shape[1]
        scores = q[:, head] @ k[:, shared].T / q.shape[2] ** 0.5
        seen = torch.ones_like(scores).tril(len(k) - len(q)).bool()
        weights = torch.where(seen, scores, -torch.inf).softmax(1)
        out[:, head] = weights @ v[:, shared]
    return out


rows = st.lists(st.integers(0, 70), max_size=6).flatmap(
    lambda decodes: st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 40)),
        max_size=3,
        min_size=0 if decodes else 1,
    ).map(lambda chunks: [(start, 1) for start in decodes] + chunks)
)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "name", [name for name, (_, on) in ATTENTION_BACKENDS.items() if "cpu" in on]
)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    rows=rows,
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 4),
    head_dim=st.sampled_from([8, 32, 64, 80, 128]),
    page_size=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 1000),
)
def test_a_step_attends_as_dense_attention_does(
    name: str,
    dtype: torch.dtype,
    rows: list[tuple[int, int]],
    kv_heads: int,
    group: int,
    head_dim: int,
    page_size: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    numbers = np.random.default_rng(seed)
    starts, counts = np.array(rows, np.int64).T
    widths = -(-(starts + counts) // page_size)
    num_pages = int(widths.sum()) + 3
    free = numbers.permutation(num_pages)
    tables = np.full((len(rows), widths.max()), num_pages - 1, np.int64)
    cache = KvCache(
        num_layers=2,
        num_pages=num_pages,
        page_size=page_size,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
        device=CPU,
    )
    for row, width in enumerate(widths):
        tables[row, :width], free = free[:width], free[width:]
    keys, values, queries = [], [], []
    for (start, count), table in zip(rows, tables, strict=True):
        length = start + count
        k = torch.randn(length, kv_heads, head_dim, dtype=dtype)
        v = torch.randn(length, kv_heads, head_dim, dtype=dtype)
        queries.append(torch.randn(count, kv_heads * group, head_dim, dtype=dtype))
        keys.append(k)
        values.append(v)
        cells = torch.arange(start)
        cells = torch.as_tensor(table)[cells // page_size] * page_size + (
            cells % page_size
        )
        cache.write(LAYER, cells, k[:start], v[:start])
    batch = AttentionBatch.of(starts, counts, tables, page_size=page_size, device=CPU)
    step = choose_attention(name, cache, kv_heads * group).prepare(batch)
    got = step.attend(
        LAYER,
        torch.cat(queries),
        torch.cat([k[s:] for k, (s, _) in zip(keys, rows, strict=True)]),
        torch.cat([v[s:] for v, (s, _) in zip(values, rows, strict=True)]),
    )
    want = torch.cat(
        [
            dense(q.float(), k.float(), v.float())
            for q, k, v in zip(queries, keys, values, strict=True)
        ]
    )
    tolerance = 2e-5 if dtype is torch.float32 else 3e-2
    torch.testing.assert_close(got.float(), want, atol=tolerance, rtol=tolerance)
    assert not cache.keys[0].any(), "another layer was written"
