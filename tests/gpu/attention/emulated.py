"""The kernels that CUDA backends call, in plain torch, as strict as their documents.

Each has the signature of the function it stands for and refuses what that refuses, or
reads past: wrong types and strides, page sizes, tables too narrow, sums that do not add
up. Where a document is silent, the source was read: FlashAttention's
``csrc/flash_attn/flash_api.cpp`` and ``hopper/flash_api.cpp``, and torch's
``torch/nn/attention``.
"""

from itertools import pairwise
from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)
FP8 = torch.float8_e4m3fn


def need(holds: Any, what: str) -> None:
    if not holds:
        raise RuntimeError(what)


def check_numbers(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    also: tuple[torch.dtype, ...] = (),
) -> None:
    need(q.dtype in (*HALVES, *also), "only fp16 and bf16")
    need(q.dtype == k.dtype == v.dtype, "q, k and v of one dtype")
    need(q.device == k.device == v.device, "q, k and v on one device")
    for one in (q, k, v):
        need(one.stride(-1) == 1, "the last dimension contiguous")
    need(k.dim() == 4 and k.shape == v.shape, "k and v: pages, page size, heads, dim")
    need(q.shape[-1] == k.shape[-1], "heads of one width")
    need(q.shape[-1] % 8 == 0 and q.shape[-1] <= 256, "heads of 8 to 256, by 8")
    need(q.shape[-2] % k.shape[-2] == 0, "query heads a multiple of key heads")


def check_ints(q: torch.Tensor, count: int, **tensors: torch.Tensor) -> None:
    for name, one in tensors.items():
        need(isinstance(one, torch.Tensor), f"{name} a tensor")
        need(one.dtype == torch.int32, f"{name} int32")
        need(one.is_contiguous(), f"{name} contiguous")
        need(one.device == q.device, f"{name} beside q")
        need(one.shape == (count,), f"{name} of {count}, not {tuple(one.shape)}")


def check_tables(
    tables: torch.Tensor, k: torch.Tensor, lengths: torch.Tensor, multiple: int
) -> None:
    pages, size = k.shape[:2]
    need(size % multiple == 0, f"page size a multiple of {multiple}")
    need(tables.dtype == torch.int32, "block table int32")
    need(tables.dim() == 2 and tables.stride(-1) == 1, "block table contiguous")
    need(tables.shape[0] == len(lengths), "a block table for each row")
    for table, length in zip(tables.tolist(), lengths.tolist(), strict=True):
        used = table[: -(-length // size)]
        need(len(used) * size >= length, "block table wide enough")
        need(all(0 <= page < pages for page in used), "pages of the pool")


def check_sums(sums: torch.Tensor, total: int, most: int) -> list[int]:
    ends = sums.tolist()
    counts = [last - first for first, last in pairwise(ends)]
    need(ends[0] == 0 and ends[-1] == total, "sums from 0 to the total")
    need(min(counts) >= 0 and max(counts) <= most, "rows within the maximum")
    return counts


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    counts: list[int],
    lengths: list[int],
    tables: torch.Tensor,
    causal: bool,
    window: tuple[int, int],
) -> torch.Tensor:
    """Attend rows of [tokens, heads, dim], aligned at their lower right corners."""
    left, right = window[0], 0 if causal else window[1]
    out = torch.zeros(q.shape)
    first = 0
    for count, length, table in zip(counts, lengths, tables.tolist(), strict=True):
        pages = table[: -(-length // k.shape[1])]
        keys, values = (one[pages].flatten(0, 1)[:length].float() for one in (k, v))
        some = q[first : first + count].float()
        place = torch.arange(length)
        middle = torch.arange(count)[:, None] + length - count
        seen = torch.ones(count, length, dtype=torch.bool)
        if left >= 0:
            seen &= place >= middle - left
        if right >= 0:
            seen &= place <= middle + right
        group = q.shape[1] // k.shape[2]
        keys, values = (one.repeat_interleave(group, 1) for one in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", some, keys) * q.shape[2] ** -0.5
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0)
        out[first : first + count] = torch.einsum("hqk,khd->qhd", weights, values)
        first += count
    return out.to(torch.bfloat16 if q.dtype == FP8 else q.dtype)


def flash_2_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: None = None,
    v: None = None,
    rotary_cos: None = None,
    rotary_sin: None = None,
    cache_seqlens: torch.Tensor | None = None,
    cache_batch_idx: None = None,
    cache_leftpad: None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> torch.Tensor:
    """``flash_attn.flash_attn_with_kvcache`` of flash-attn 2, for what is used here."""
    need(q.dim() == 4, "q: batch, tokens, heads, dim")
    check_numbers(q, k_cache, v_cache)
    assert cache_seqlens is not None
    assert block_table is not None
    batch, tokens = q.shape[:2]
    need(batch > 0, "at least one row")
    check_ints(q, batch, cache_seqlens=cache_seqlens)
    check_tables(block_table, k_cache, cache_seqlens, 256)
    out = attend(
        q.flatten(0, 1),
        k_cache,
        v_cache,
        [tokens] * batch,
        cache_seqlens.tolist(),
        block_table,
        causal,
        window_size,
    )
    return out.view(q.shape)


def flash_2_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> torch.Tensor:
    """``flash_attn.flash_attn_varlen_func`` of flash-attn 2, for what is used here."""
    assert block_table is not None
    lengths = cu_seqlens_k.diff()
    return packed(
        q,
        k,
        v,
        cu_seqlens_q,
        max_seqlen_q,
        lengths.int(),
        block_table,
        causal,
        window_size,
        multiple=256,
        cu_k=cu_seqlens_k,
        most_k=max_seqlen_k,
    )


def packed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_q: torch.Tensor,
    most_q: int,
    lengths: torch.Tensor,
    tables: torch.Tensor,
    causal: bool,
    window: tuple[int, int],
    *,
    multiple: int,
    cu_k: torch.Tensor | None,
    most_k: int,
    also: tuple[torch.dtype, ...] = (),
) -> torch.Tensor:
    need(q.dim() == 3, "q: tokens, heads, dim")
    check_numbers(q, k, v, also)
    rows = len(cu_q) - 1
    need(rows > 0, "at least one row")
    need(isinstance(most_q, int) and isinstance(most_k, int), "maxima as integers")
    check_ints(q, rows + 1, cu_q=cu_q)
    check_ints(q, rows, lengths=lengths)
    counts = check_sums(cu_q, len(q), most_q)
    if cu_k is not None:
        check_ints(q, rows + 1, cu_k=cu_k)
        need(torch.equal(cu_k.diff(), lengths), "sums of lengths")
        need(cu_k[0] == 0, "sums from 0")
    check_tables(tables, k, lengths, multiple)
    need(int(lengths.max()) <= most_k, "lengths within the maximum")
    return attend(q, k, v, counts, lengths.tolist(), tables, causal, window)


class Varlen:
    """``torch.nn.attention.varlen.varlen_attn``, by one FlashAttention or another.

    Args:
        flavour: FA2 wants sums of lengths and pages of 256; FA3 and FA4 refuse the
            former beside block tables.
    """

    def __init__(self, flavour: str) -> None:
        self.flavour = flavour

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seq_q: torch.Tensor,
        cu_seq_k: torch.Tensor | None,
        max_q: int,
        max_k: int,
        *,
        return_aux: None = None,
        scale: float | None = None,
        window_size: tuple[int, int] = (-1, -1),
        enable_gqa: bool = False,
        seqused_k: torch.Tensor | None = None,
        block_table: torch.Tensor | None = None,
        num_splits: int | None = None,
    ) -> torch.Tensor:
        assert seqused_k is not None, "a block table requires seqused_k"
        assert block_table is not None
        need(enable_gqa or query.shape[1] == key.shape[2], "as many heads of keys")
        is_built_in = self.flavour == "FA2"
        need(is_built_in == (cu_seq_k is not None), "sums of lengths for FA2 alone")
        need(self.flavour != "FA4" or query.shape[2] <= 128, "heads up to 128")
        return packed(
            query,
            key,
            value,
            cu_seq_q,
            max_q,
            seqused_k,
            block_table,
            window_size == (-1, 0),
            window_size,
            multiple=256 if is_built_in else 1,
            cu_k=cu_seq_k,
            most_k=max_k,
        )
