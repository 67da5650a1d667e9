"""The backends that the contract suite tries, and what each of them takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pytest
import torch

from legato.gpu.attention import ATTENTION_BACKENDS, AttentionBackend, KvCache
from legato.gpu.attention.cache import FP8
from legato.gpu.attention.flash import flash_2, flash_3, schedule_3
from legato.gpu.attention.gather import gather
from legato.gpu.attention.kernel import (
    Call,
    CapturableKernel,
    KernelAttention,
    Schedule,
)
from legato.gpu.attention.native import native_or
from legato.gpu.attention.offer import Builder, Offer
from legato.gpu.attention.paged import PagedAttention
from legato.gpu.attention.reference import ReferenceAttention
from legato.gpu.attention.varlen import varlen

from .emulated import Varlen, flash_2_varlen, flash_2_with_kvcache
from .emulated_flash_3 import flash_3_scheduler_metadata, flash_3_with_kvcache
from .scene import Scene

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Candidate:
    """A backend to try."""

    name: str
    builder: Builder
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16)
    head_dims: Sequence[int] = (8, 32, 64, 80, 128)
    page_sizes: Sequence[int] = (1, 4, 16)
    longest: int = 70
    device: torch.device = field(default=CPU)
    kv_dtype: torch.dtype | None = None
    rounds_queries: bool = False

    def build(self, scene: Scene, windows: tuple[int, ...]) -> AttentionBackend:
        return self.builder(scene.cache, scene.num_heads, windows)

    def __str__(self) -> str:
        return self.name


HALVES = (torch.bfloat16, torch.float16)
WIDTHS = (16, 64, 80, 128, 256)


def over(
    call: Call,
    *,
    splits: bool,
    kind: type[KernelAttention] = CapturableKernel,
    schedule: Schedule | None = None,
) -> Builder:
    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> AttentionBackend:
        return kind(cache, windows, call, splits=splits, schedule=schedule)

    return build


FLASH_2 = flash_2(flash_2_with_kvcache, flash_2_varlen)
EMULATED = {
    "flash 2": (over(FLASH_2, splits=True), (256, 512), WIDTHS),
    "flash 3": (over(flash_3(flash_3_with_kvcache), splits=False), (8, 128), WIDTHS),
    "flash 3, scheduled": (
        over(
            flash_3(flash_3_with_kvcache),
            splits=False,
            schedule=schedule_3(flash_3_scheduler_metadata),
        ),
        *((8, 128), WIDTHS),
    ),
    "varlen FA2": (
        over(varlen(Varlen("FA2"), has_cu_k=True), splits=True),
        (256, 512),
        WIDTHS,
    ),
    "varlen FA3": (
        over(varlen(Varlen("FA3"), has_cu_k=False), splits=False),
        (8, 128),
        WIDTHS,
    ),
    "varlen FA4": (
        over(varlen(Varlen("FA4"), has_cu_k=False), splits=False),
        (128, 256),
        WIDTHS[:-1],
    ),
}


class OnGpu:
    """A backend of a CUDA device, with what it says it takes.

    A package that is there and cannot be built fails its tests: that is worth knowing.
    """

    longest = 600
    device = torch.device("cuda", 0)

    def __init__(
        self,
        name: str,
        place: int = 0,
        kv_dtype: torch.dtype | None = None,
        rounds_queries: bool = False,
    ) -> None:
        self.name = name
        self.place = place
        self.kv_dtype = kv_dtype
        self.rounds_queries = rounds_queries

    @cached_property
    def offer(self) -> Offer:
        offers = ATTENTION_BACKENDS[self.name](self.device)
        if isinstance(offers, str):
            pytest.skip(offers)
        if self.place >= len(offers):
            pytest.skip(f"{self.name} has {len(offers)} packages here")
        if self.kv_dtype is FP8 and not offers[self.place].reads_fp8:
            pytest.skip(f"{offers[self.place].what} reads no fp8")
        return offers[self.place]

    @property
    def dtypes(self) -> Sequence[torch.dtype]:
        return self.offer.dtypes or (torch.float32, *HALVES)

    @property
    def head_dims(self) -> Sequence[int]:
        return [width for width in WIDTHS if width <= (self.offer.most_head_dim or 256)]

    @property
    def page_sizes(self) -> Sequence[int]:
        return [s for s in (16, 128, 256, 512) if s % self.offer.page_multiple == 0]

    def build(self, scene: Scene, windows: tuple[int, ...]) -> AttentionBackend:
        return self.offer.build(scene.cache, scene.num_heads, windows)

    def __str__(self) -> str:
        kind = ", fp8" if self.kv_dtype else ""
        return f"{self.name} {self.place} on cuda{kind}"


CANDIDATES = [
    Candidate("reference", ReferenceAttention),
    Candidate("paged", PagedAttention),
    Candidate("native", native_or(PagedAttention)),
    Candidate("gather", over(gather, splits=True, kind=KernelAttention)),
    Candidate("reference, fp8", ReferenceAttention, kv_dtype=FP8),
    Candidate("paged, fp8", PagedAttention, kv_dtype=FP8),
    Candidate(
        "gather, fp8", over(gather, splits=True, kind=KernelAttention), kv_dtype=FP8
    ),
    Candidate(
        "flash 3, emulated, fp8",
        EMULATED["flash 3, scheduled"][0],
        *(HALVES, WIDTHS, (8, 128), 600),
        kv_dtype=FP8,
        rounds_queries=True,
    ),
    *(
        Candidate(f"{name}, emulated", builder, HALVES, widths, sizes, 600)
        for name, (builder, sizes, widths) in EMULATED.items()
    ),
    *(
        pytest.param(one, marks=pytest.mark.gpu, id=str(one))
        for one in (
            OnGpu("flash"),
            OnGpu("flash", 1),
            OnGpu("varlen"),
            OnGpu("varlen", 1),
            OnGpu("gather"),
            OnGpu("reference"),
            OnGpu("flash", kv_dtype=FP8, rounds_queries=True),
            OnGpu("gather", kv_dtype=FP8),
        )
    ),
]
