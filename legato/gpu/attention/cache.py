"""The keys and values of every position, in pages of one pool.

Knows pages and cells, not whose they are: that is the scheduler's business.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

FP8 = torch.float8_e4m3fn
# The largest of its numbers. There are no infinities; what is beyond would be NaN.
_MOST_FP8 = 448.0


class KvCache:
    """The pool's tensors.

    Args:
        num_layers: Decoder layers.
        num_pages: Pages in the pool.
        page_size: Tokens in a page.
        num_kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        dtype: Of keys and values; in ``FP8`` they are rounded as they are stored.
        device: Where they live.

    ``keys`` and ``values`` are [layers, pages, page_size, kv_heads, head_dim]. A *cell*
    is a token's place: ``page * page_size + offset``.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.page_size = page_size
        self.num_pages = num_pages
        shape = (num_layers, num_pages, page_size, num_kv_heads, head_dim)
        # Zeroed, not empty: backends read whole pages, and masking does not silence a
        # NaN among the values.
        self.keys = zeros(shape, dtype, device)
        self.values = zeros(shape, dtype, device)
        cells = (num_layers, num_pages * page_size, num_kv_heads, head_dim)
        self.key_cells = self.keys.view(cells)
        self.value_cells = self.values.view(cells)

    def write(
        self, layer: int, cells: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> None:
        """Store a layer's keys and values.

        Args:
            layer: Which.
            cells: [tokens] int64.
            k: [tokens, kv_heads, head_dim].
            v: The same.
        """
        for pool, new in ((self.key_cells, k), (self.value_cells, v)):
            held = new if new.dtype == pool.dtype else to_fp8(new)
            bits(pool[layer]).index_copy_(0, cells, bits(held))

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        """What is read of numbers that were stored, in their own type."""
        return x if x.dtype == self.keys.dtype else to_fp8(x).to(x.dtype)

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole pages, (source, target), one after the other."""
        for source, target in pairs:
            self.keys[:, target] = self.keys[:, source]
            self.values[:, target] = self.values[:, source]

    def scrub(self, cells: torch.Tensor) -> None:
        """Zero cells that no token has yet, over all layers.

        A sequence whose numbers broke may have left NaN there.
        """
        bits(self.key_cells).index_fill_(1, cells, 0)
        bits(self.value_cells).index_fill_(1, cells, 0)


def to_fp8(x: torch.Tensor) -> torch.Tensor:
    """Round to 4 bits of exponent and 3 of mantissa; too large becomes the largest."""
    return x.clamp(-_MOST_FP8, _MOST_FP8).to(FP8)


def bits(x: torch.Tensor) -> torch.Tensor:
    """See numbers that few of torch's operators know as bytes, others as they are."""
    return x.view(torch.uint8) if x.dtype == FP8 else x


def read(pool: torch.Tensor, pages: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Copy pages out of a layer's pool.

    Args:
        pool: [pages, page_size, kv_heads, head_dim].
        pages: [n] integers.
        dtype: Of what comes out.

    Returns:
        [n, page_size, kv_heads, head_dim].
    """
    return bits(pool).index_select(0, pages).view(pool.dtype).to(dtype)


def zeros(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Reserve zeros; on a CPU, memory that is never touched is never taken.

    Torch's own zeros are written out: a pool of 4 GiB then takes 4 GiB at once.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    reserved = np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)
    return torch.asarray(reserved).view(dtype).view(shape)
