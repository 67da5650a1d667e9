"""Attention that reads pages in place, for float32 caches on a CPU."""

import ctypes

import torch

from ..native.library import Kernels, address, load_kernels
from ..native.structures import Batch, Cache, Int
from .backend import AttentionBackend
from .batch import AttentionBatch
from .cache import KvCache
from .offer import Builder
from .tensors import Ints


class NativeAttention:
    """Decodes and prefill chunks in one pass over the pages.

    Args:
        cache: The pool, float32.
        num_heads: Query heads.
        kernels: The library.
        num_threads: Of the kernels.
    """

    def __init__(
        self, cache: KvCache, num_heads: int, kernels: Kernels, num_threads: int
    ) -> None:
        self.cache = cache
        self.num_heads = num_heads
        self.kernels = kernels
        self.pool = kernels.pool(self, num_threads)

    def prepare(self, batch: AttentionBatch) -> "NativeStep":
        """Lay the rows out for the kernels."""
        return NativeStep(self, batch)


class NativeStep:
    """One step."""

    def __init__(self, backend: NativeAttention, batch: AttentionBatch) -> None:
        self._backend = backend
        self._cells = batch.cells
        self._rows = RowArrays(batch)

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        cache = self._backend.cache
        cache.write(layer, self._cells, k, v)
        q = q.contiguous()
        out = torch.empty_like(q)
        self._backend.kernels.attend(
            self._backend.pool,
            ctypes.byref(cache_structure(cache, layer)),
            ctypes.byref(self._rows.structure),
            address(q),
            Int(self._backend.num_heads),
            address(out),
        )
        return out


class RowArrays:
    """A batch's arrays, kept alive beside the structure that points to them."""

    def __init__(self, batch: AttentionBatch) -> None:
        self._kept: list[torch.Tensor] = []
        self.structure = Batch(
            *map(self._place, (batch.starts, batch.counts, batch.firsts, batch.tables)),
            *(len(batch.counts), batch.tables.shape[1]),
        )

    def _place(self, values: Ints) -> int:
        tensor = torch.asarray(values).contiguous()
        self._kept.append(tensor)
        return address(tensor)


def cache_structure(cache: KvCache, layer: int) -> Cache:
    """Describe a layer of a cache."""
    return Cache(
        *(address(cache.keys[layer]), address(cache.values[layer])),
        *(cache.page_size, *cache.keys.shape[3:]),
        cache.keys.dtype == torch.float16,
    )


def native_or(fallback: Builder) -> Builder:
    """Build the native backend where it can run, else another."""

    def build(
        cache: KvCache, num_heads: int, windows: tuple[int, ...] = ()
    ) -> AttentionBackend:
        if cache.keys.dtype != torch.float32 or any(windows):
            return fallback(cache, num_heads, windows)
        kernels = load_kernels()
        if not isinstance(kernels, Kernels):
            return fallback(cache, num_heads, windows)
        return NativeAttention(cache, num_heads, kernels, torch.get_num_threads())

    return build
