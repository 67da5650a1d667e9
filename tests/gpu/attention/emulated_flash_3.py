"""FlashAttention 3's functions in plain torch, as strict as its flash_api.cpp."""

import zlib

import torch

from .emulated import FP8, check_ints, need, packed


def flash_3_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: None = None,
    v: None = None,
    qv: None = None,
    rotary_cos: None = None,
    rotary_sin: None = None,
    cache_seqlens: torch.Tensor | None = None,
    cache_batch_idx: None = None,
    cache_leftpad: None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: None = None,
    q_descale: None = None,
    k_descale: None = None,
    v_descale: None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: torch.Tensor | None = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
) -> torch.Tensor:
    """``flash_attn_interface.flash_attn_with_kvcache``, for what is used here."""
    assert cache_seqlens is not None
    assert page_table is not None
    assert cu_seqlens_q is not None
    assert max_seqlen_q is not None
    if scheduler_metadata is not None:
        needed = flash_3_scheduler_metadata(
            *(len(cache_seqlens), max_seqlen_q),
            *(page_table.shape[1] * k_cache.shape[1], q.shape[1], k_cache.shape[2]),
            *(q.shape[2], cache_seqlens, q.dtype),
            cu_seqlens_q=cu_seqlens_q,
            page_size=k_cache.shape[1],
            causal=causal,
            window_size=window_size,
            num_splits=num_splits,
            pack_gqa=pack_gqa,
        )
        need(scheduler_metadata.shape == needed.shape, "metadata of these rows")
        need(torch.equal(scheduler_metadata, needed), "metadata of this very call")
    return packed(
        q,
        k_cache,
        v_cache,
        cu_seqlens_q,
        max_seqlen_q,
        cache_seqlens,
        page_table,
        causal,
        window_size,
        multiple=1,
        cu_k=None,
        most_k=page_table.shape[1] * k_cache.shape[1],
        also=(FP8,),
    )


def flash_3_scheduler_metadata(
    batch_size: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    num_heads_q: int,
    num_heads_kv: int,
    headdim: int,
    cache_seqlens: torch.Tensor,
    qkv_dtype: torch.dtype = torch.bfloat16,
    headdim_v: int | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: None = None,
    cache_leftpad: None = None,
    page_size: int | None = None,
    max_seqlen_k_new: int = 0,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    attention_chunk: int = 0,
    has_softcap: bool = False,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> torch.Tensor:
    """``flash_attn_interface.get_scheduler_metadata``: says what it was asked.

    Computed on the device, so that a recording computes it again.
    """
    assert cu_seqlens_q is not None
    check_ints(cache_seqlens, batch_size, lengths=cache_seqlens)
    check_ints(cache_seqlens, batch_size + 1, cu_q=cu_seqlens_q)
    asked = (
        *(max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, qkv_dtype),
        *(page_size, causal, window_size, attention_chunk, has_softcap, num_splits),
        *(pack_gqa, sm_margin),
    )
    code = zlib.crc32(repr(asked).encode()) >> 1
    word = torch.full((1,), code, dtype=torch.int32, device=cache_seqlens.device)
    return torch.cat((cache_seqlens, cu_seqlens_q, word))
