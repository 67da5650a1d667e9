"""Attention by a kernel that reads pages through block tables."""

from typing import Protocol

import torch

from .batch import AttentionBatch
from .cache import KvCache
from .part import Part, halves, whole
from .static import StaticStep
from .tensors import StepTensors


class Call(Protocol):
    """A kernel, called as these backends do."""

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        part: Part,
        window: int,
    ) -> torch.Tensor:
        """Let each row's last tokens attend to all its positions, causally.

        Args:
            q: [tokens, heads, head_dim] of the part.
            keys: [pages, page_size, kv_heads, head_dim], the tokens' own included.
            values: The same.
            part: The rows.
            window: Last positions that a token sees, its own included; 0 is all.

        Returns:
            As ``q``.
        """
        ...


class KernelAttention:
    """Writes keys and values into their cells, and leaves the rest to a kernel.

    Args:
        cache: The pool.
        windows: Of each layer, 0 for the whole past; none at all if empty.
        call: The kernel.
        splits: It wants decodes and chunks in calls of their own.
    """

    def __init__(
        self, cache: KvCache, windows: tuple[int, ...], call: Call, *, splits: bool
    ) -> None:
        self.cache = cache
        self.windows = windows or (0,) * len(cache.keys)
        self.call = call
        self._cut = halves if splits else whole

    def prepare(self, batch: AttentionBatch) -> "KernelStep":
        """Cut the step into what is called together."""
        return KernelStep(self, batch.cells, self._cut(batch))


class CapturableKernel(KernelAttention):
    """A kernel whose work follows the rows' lengths, however wide their tables."""

    def reserve(self, rows: int, pages: int, spare_page: int) -> StaticStep:
        """Reserve a decode step for graphs."""
        return StaticStep(self.cache, rows, pages, spare_page, self._bind)

    def _bind(self, tensors: StepTensors) -> "KernelStep":
        part = Part.fixed(tensors, self.cache.page_size)
        return KernelStep(self, tensors.cells, [part])


class KernelStep:
    """One step."""

    def __init__(
        self, backend: KernelAttention, cells: torch.Tensor, parts: list[Part]
    ) -> None:
        self._backend = backend
        self._cells = cells
        self._parts = parts

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        cache, window = self._backend.cache, self._backend.windows[layer]
        cache.write(layer, self._cells, k, v)
        keys, values = cache.keys[layer], cache.values[layer]
        outs = [
            self._backend.call(q[part.tokens], keys, values, part, window)
            for part in self._parts
        ]
        return outs[0] if len(outs) == 1 else torch.cat(outs)
