"""What a model asks of attention."""

import msgspec
import torch


class Geometry(msgspec.Struct, frozen=True):
    """Heads, numbers and windows.

    Args:
        num_heads: Query heads.
        num_kv_heads: Key and value heads; divides ``num_heads``.
        head_dim: Width of a head.
        dtype: Of queries, keys and values.
        windows: For each layer, so many last positions are seen; 0 is all of them.
            Empty: all layers see all.
        kv_dtype: Of keys and values in the cache; None is ``dtype``.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    windows: tuple[int, ...] = ()
    kv_dtype: torch.dtype | None = None

    @property
    def held_dtype(self) -> torch.dtype:
        """Of keys and values in the cache."""
        return self.kv_dtype or self.dtype
