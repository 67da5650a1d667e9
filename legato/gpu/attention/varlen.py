"""Attention by torch's own variable-length kernels, where they read block tables.

Torch has FlashAttention 2 built in; FlashAttention 3 and 4 come from packages that it
routes the same call to, once they are activated, for the whole process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from .cache import KvCache
from .kernel import Call, CapturableKernel
from .offer import Offer
from .part import Part

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Flavour:
    """What of a FlashAttention shows through torch's function.

    Args:
        name: In torch's registry.
        module: That it comes from; "" is torch itself.
        majors: Compute capabilities; empty is any from 8.0.
        rank: The highest is the fastest.
        page_size: Tokens in a page where nobody chose.
        page_multiple: Pages must hold a multiple of so many tokens.
        most_head_dim: The widest head.
        splits: It wants decodes and chunks in calls of their own.
    """

    name: str
    module: str
    majors: tuple[int, ...]
    rank: int
    page_size: int
    page_multiple: int
    most_head_dim: int
    splits: bool = False


# FlashAttention 4 has block tables on compute capability 10 alone, and loads pages of
# 128 in hardware.
FLAVOURS = (
    Flavour("FA4", "flash_attn.cute", (10,), 35, 128, 128, 128),
    Flavour("FA3", "flash_attn_interface", (9,), 25, 128, 1, 256),
    Flavour("FA2", "", (), 15, 256, 256, 256, splits=True),
)


def varlen(kernel: Kernel, *, has_cu_k: bool) -> Call:
    """Call torch's function.

    Its form with an output is not used: FlashAttention 2 repacks the heads of decodes,
    and would write into a copy.

    Args:
        kernel: ``torch.nn.attention.varlen.varlen_attn``.
        has_cu_k: FlashAttention 2 asks for sums of lengths beside the block table,
            though it reads the lengths; 3 and 4 refuse them.
    """

    def call(
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        part: Part,
        window: int,
    ) -> torch.Tensor:
        return kernel(
            q,
            keys,
            values,
            part.cu_q,
            part.cu_k if has_cu_k else None,
            part.max_q,
            part.max_k,
            window_size=bounds(window, part.max_q),
            enable_gqa=True,
            seqused_k=part.lengths,
            block_table=part.tables,
        )

    return call


def bounds(window: int, max_q: int) -> tuple[int, int]:
    """Say causal attention as positions to the left and right; -1 is no bound.

    A token alone is its row's last: nothing is to its right. Bounded there, its query
    heads would not be packed.
    """
    if window:
        return window - 1, 0
    return -1, -1 if max_q == 1 else 0


def look(device: torch.device) -> tuple[Offer, ...] | str:
    """Say which kernels torch could call, or why none; activates nothing."""
    if device.type != "cuda":
        return ()
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"it needs compute capability 8.0, this device has {major}.{minor}"
    if not reads_tables(torch.__version__):
        return f"torch {torch.__version__} reads no block tables; install torch 2.13"
    return tuple(offer(flavour) for flavour in flavours(major))


def reads_tables(version: str) -> bool:
    """Whether a torch is new enough.

    By its number: importing the function to look at it takes seconds, where another
    backend will run.
    """
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= (2, 13)


def find_kernel() -> Kernel:
    """Import torch's function.

    Raises:
        ImportError: It is not there after all.
    """
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn


def flavours(major: int) -> list[Flavour]:
    """Find the kernels that are there for a compute capability, the newest first."""
    return [
        flavour
        for flavour in FLAVOURS
        if (not flavour.majors or major in flavour.majors)
        and (not flavour.module or is_installed(flavour.module))
    ]


def is_installed(module: str) -> bool:
    """Whether a module could be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def offer(flavour: Flavour, find: Callable[[], Kernel] = find_kernel) -> Offer:
    """Offer one of torch's kernels."""

    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> CapturableKernel:
        activate(flavour)
        call = varlen(find(), has_cu_k=flavour.splits)
        return CapturableKernel(cache, windows, call, splits=flavour.splits)

    source = f"from {flavour.module}" if flavour.module else "built into torch"
    return Offer(
        f"FlashAttention {flavour.name[2:]} {source}, through torch",
        build,
        rank=flavour.rank,
        page_size=flavour.page_size,
        page_multiple=flavour.page_multiple,
        dtypes=(torch.bfloat16, torch.float16),
        head_multiple=8,
        is_tried=True,
        most_head_dim=flavour.most_head_dim,
    )


def activate(flavour: Flavour) -> None:
    """Route torch's calls to a kernel, for the whole process.

    Raises:
        Exception: Whatever importing and registering it raises.
    """
    from torch.nn import attention

    current = attention.current_flash_attention_impl() or "FA2"
    if current == flavour.name:
        return
    if flavour.module:
        attention.activate_flash_attention_impl(flavour.name)
    else:
        attention.restore_flash_attention_impl()
