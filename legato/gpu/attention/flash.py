"""Attention by the flash-attn packages: FlashAttention 2, and 3 on Hopper."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from .cache import FP8, KvCache, to_fp8
from .kernel import Call, CapturableKernel, Schedule
from .offer import Offer
from .part import Part

Kernel = Callable[..., Any]
HALVES = (torch.bfloat16, torch.float16)
INSTALL = "install flash-attn (pip install legato-engine[cuda])"
MODULE_2, MODULE_3 = "flash_attn", "flash_attn_interface"


def flash_2(with_kvcache: Kernel, varlen: Kernel) -> Call:
    """Call FlashAttention 2: decodes by one function, chunks by the other.

    Only the first splits a long past among processors, and it alone packs the query
    heads of a key head together; it takes rows of one length.

    Args:
        with_kvcache: ``flash_attn.flash_attn_with_kvcache``.
        varlen: ``flash_attn.flash_attn_varlen_func``.
    """

    def call(
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        part: Part,
        window: int,
    ) -> torch.Tensor:
        if part.max_q == 1:
            out = with_kvcache(
                q.unsqueeze(1),
                keys,
                values,
                cache_seqlens=part.lengths,
                block_table=part.tables,
                causal=True,
                window_size=bounds(window),
            )
            return out.squeeze(1)
        return varlen(
            q,
            keys,
            values,
            part.cu_q,
            part.cu_k,
            part.max_q,
            part.max_k,
            causal=True,
            window_size=bounds(window),
            block_table=part.tables,
        )

    return call


def flash_3(with_kvcache: Kernel) -> Call:
    """Call FlashAttention 3, which takes rows of any lengths together.

    Args:
        with_kvcache: ``flash_attn_interface.flash_attn_with_kvcache``.
    """

    def call(
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        part: Part,
        window: int,
    ) -> torch.Tensor:
        # It multiplies numbers of one type: queries are rounded as the keys were.
        out = with_kvcache(
            to_fp8(q) if keys.dtype == FP8 else q,
            keys,
            values,
            cache_seqlens=part.lengths,
            page_table=part.tables,
            cu_seqlens_q=part.cu_q,
            max_seqlen_q=part.max_q,
            causal=True,
            window_size=bounds(window),
            scheduler_metadata=part.schedule,
        )
        return out.to(q.dtype)

    return call


def schedule_3(get_scheduler_metadata: Kernel) -> Schedule:
    """Let FlashAttention 3 schedule decodes once a step, not once a layer.

    It saves a kernel a layer. What it is told must be what the call is told.

    Args:
        get_scheduler_metadata: ``flash_attn_interface.get_scheduler_metadata``.
    """

    def schedule(
        q: torch.Tensor, keys: torch.Tensor, part: Part, window: int
    ) -> torch.Tensor:
        page_size, kv_heads = keys.shape[1:3]
        return get_scheduler_metadata(
            batch_size=len(part.lengths),
            max_seqlen_q=part.max_q,
            # Not ``max_k``: the call goes by its table's width.
            max_seqlen_k=part.tables.shape[1] * page_size,
            num_heads_q=q.shape[1],
            num_heads_kv=kv_heads,
            headdim=q.shape[2],
            cache_seqlens=part.lengths,
            qkv_dtype=keys.dtype,
            cu_seqlens_q=part.cu_q,
            page_size=page_size,
            causal=True,
            window_size=bounds(window),
        )

    return schedule


def bounds(window: int) -> tuple[int, int]:
    """Say a window as positions to the left and right; -1 is no bound.

    None to the right either, though every call is causal: with one, a decode counts as
    local attention, and its query heads are not packed.
    """
    return (window - 1, 0) if window else (-1, -1)


def look(device: torch.device) -> tuple[Offer, ...] | str:
    """Say which FlashAttention is there, or why none; imports nothing."""
    if device.type != "cuda":
        return ()
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"it needs compute capability 8.0, this device has {major}.{minor}"
    offers: list[Offer] = []
    if major == 9 and find_spec(MODULE_3):
        offers += [offer_3(), offer_3(schedules=False)]
    if find_spec(MODULE_2):
        offers.append(offer_2())
    if offers:
        return tuple(offers)
    hopper = ", or FlashAttention 3 from its repository" if major == 9 else ""
    return f"neither {MODULE_2} nor {MODULE_3} is installed; {INSTALL}{hopper}"


def offer_2(imported: Callable[[str], Any] = import_module) -> Offer:
    """Offer FlashAttention 2."""

    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> CapturableKernel:
        module: ModuleType = imported(MODULE_2)
        call = flash_2(module.flash_attn_with_kvcache, module.flash_attn_varlen_func)
        return CapturableKernel(cache, windows, call, splits=True)

    return Offer(
        "FlashAttention 2 of the flash-attn package",
        build,
        rank=20,
        page_size=256,
        page_multiple=256,
        dtypes=HALVES,
        head_multiple=8,
        is_tried=True,
        most_head_dim=256,
    )


def offer_3(
    imported: Callable[[str], Any] = import_module, *, schedules: bool = True
) -> Offer:
    """Offer FlashAttention 3.

    Args:
        imported: Imports its module.
        schedules: Once a step; builds without that, or with another, fail the trial,
            and run without.
    """

    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> CapturableKernel:
        module: ModuleType = imported(MODULE_3)
        call, schedule = flash_3(module.flash_attn_with_kvcache), None
        if schedules:
            schedule = schedule_3(module.get_scheduler_metadata)
        return CapturableKernel(cache, windows, call, splits=False, schedule=schedule)

    # It takes pages of any size, and loads those in hardware that are as large as its
    # tiles.
    return Offer(
        "FlashAttention 3 of flash_attn_interface"
        + ("" if schedules else ", scheduled in each layer"),
        build,
        rank=30 if schedules else 29,
        page_size=128,
        dtypes=HALVES,
        head_multiple=8,
        reads_fp8=True,
        is_tried=True,
        most_head_dim=256,
    )
