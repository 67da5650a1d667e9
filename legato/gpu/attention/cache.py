"""The keys and values of every position, in pages of one pool.

Knows pages and cells, not whose they are: that is the scheduler's business.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch


class KvCache:
    """The pool's tensors.

    Args:
        num_layers: Decoder layers.
        num_pages: Pages in the pool.
        page_size: Tokens in a page.
        num_kv_heads: Heads of keys and values.
        head_dim: Width of a head.
        dtype: Of keys and values.
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
        self.key_cells[layer].index_copy_(0, cells, k)
        self.value_cells[layer].index_copy_(0, cells, v)

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole pages, (source, target), one after the other."""
        for source, target in pairs:
            self.keys[:, target] = self.keys[:, source]
            self.values[:, target] = self.values[:, source]

    def scrub(self, cells: torch.Tensor) -> None:
        """Zero cells that no token has yet, over all layers.

        A sequence whose numbers broke may have left NaN there.
        """
        self.key_cells.index_fill_(1, cells, 0)
        self.value_cells.index_fill_(1, cells, 0)


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
