"""The backends that the contract suite tries, and what each of them takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from legato.gpu.attention import AttentionBackend
from legato.gpu.attention.gather import gather
from legato.gpu.attention.kernel import KernelAttention
from legato.gpu.attention.native import native_or
from legato.gpu.attention.offer import Builder
from legato.gpu.attention.paged import PagedAttention
from legato.gpu.attention.reference import ReferenceAttention

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

    def build(self, scene: Scene, windows: tuple[int, ...]) -> AttentionBackend:
        return self.builder(scene.cache, scene.num_heads, windows)

    def __str__(self) -> str:
        return self.name


CANDIDATES = [
    Candidate("reference", ReferenceAttention),
    Candidate("paged", PagedAttention),
    Candidate("native", native_or(PagedAttention)),
    Candidate(
        "gather",
        lambda cache, _, windows: KernelAttention(cache, windows, gather, splits=True),
    ),
]
