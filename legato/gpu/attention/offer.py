"""What a backend offers on a device, and what it asks in return."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .backend import AttentionBackend
from .cache import FP8, KvCache
from .geometry import Geometry

Builder = Callable[[KvCache, int, tuple[int, ...]], AttentionBackend]


@dataclass(frozen=True)
class Offer:
    """A backend that is there.

    Args:
        what: What would compute, in a few words, versions included.
        build: Builds it over a cache, for so many query heads and these windows.
        rank: The highest is the fastest, as far as is known without measuring.
        page_size: Tokens in a page where nobody chose.
        page_multiple: Pages must hold a multiple of so many tokens.
        dtypes: It computes in; empty is any.
        head_multiple: Heads must be a multiple of so many numbers wide.
        most_head_dim: And at most so wide; 0 is any.
        has_windows: Whether layers may have windows.
        reads_fp8: Whether the cache may be in fp8.
        is_tried: It is not ours, and must show on the device that it is right.
    """

    what: str
    build: Builder
    rank: int = 0
    page_size: int = 16
    page_multiple: int = 1
    dtypes: tuple[torch.dtype, ...] = ()
    head_multiple: int = 1
    most_head_dim: int = 0
    has_windows: bool = True
    reads_fp8: bool = False
    is_tried: bool = False

    def refusal(self, geometry: Geometry | None, page_size: int) -> str:
        """Say why it cannot serve a model, or nothing.

        Args:
            geometry: Of the model, if one is known.
            page_size: Tokens in a page, 0 where it may be chosen.
        """
        if page_size % self.page_multiple:
            return (
                f"pages of {page_size} tokens; it takes multiples of "
                f"{self.page_multiple}"
            )
        if geometry is None:
            return ""
        if self.dtypes and geometry.dtype not in self.dtypes:
            known = " and ".join(map(name_of, self.dtypes))
            return f"{name_of(geometry.dtype)}; it computes in {known}"
        if geometry.held_dtype == FP8 and not self.reads_fp8:
            return "keys and values in fp8"
        width, most = geometry.head_dim, self.most_head_dim
        if width % self.head_multiple or (most and width > most):
            return (
                f"heads of {width}; it takes multiples of {self.head_multiple} up to "
                f"{most}"
            )
        if any(geometry.windows) and not self.has_windows:
            return "sliding windows, which it has not"
        return ""


def name_of(dtype: torch.dtype) -> str:
    """Name a type without its module."""
    return str(dtype).removeprefix("torch.")
