"""Attention by a kernel that reads pages through block tables."""

from dataclasses import replace
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


class Schedule(Protocol):
    """How a kernel divides rows among processors, which is the same in each layer."""

    def __call__(
        self, q: torch.Tensor, keys: torch.Tensor, part: Part, window: int
    ) -> torch.Tensor:
        """Queue its computation, from lengths on the device.

        Args:
            q: As in ``Call``.
            keys: The same.
            part: Decodes.
            window: As in ``Call``.

        Returns:
            For ``Part.schedule``.
        """
        ...


class KernelAttention:
    """Writes keys and values into their cells, and leaves the rest to a kernel.

    Args:
        cache: The pool.
        windows: Of each layer, 0 for the whole past; none at all if empty.
        call: The kernel.
        splits: It wants decodes and chunks in calls of their own.
        schedule: Of steps of decodes, if the kernel takes that.
    """

    def __init__(
        self,
        cache: KvCache,
        windows: tuple[int, ...],
        call: Call,
        *,
        splits: bool,
        schedule: Schedule | None = None,
    ) -> None:
        self.cache = cache
        self.windows = windows or (0,) * len(cache.keys)
        self.call = call
        self.schedule = schedule
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
        self._layer = -1
        # By the part's first token and the window.
        self._scheduled: dict[tuple[int, int], Part] = {}

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As the interface says."""
        cache, window = self._backend.cache, self._backend.windows[layer]
        cache.write(layer, self._cells, k, v)
        keys, values = cache.keys[layer], cache.values[layer]
        if layer <= self._layer:
            # The layers begin anew: a static step may have other rows by now, and a
            # captured one must have its schedule computed by the graph.
            self._scheduled.clear()
        self._layer = layer
        outs: list[torch.Tensor] = []
        for part in self._parts:
            some = q[part.tokens]
            part = self._schedule(some, keys, part, window)
            outs.append(self._backend.call(some, keys, values, part, window))
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def _schedule(
        self, q: torch.Tensor, keys: torch.Tensor, part: Part, window: int
    ) -> Part:
        schedule = self._backend.schedule
        if schedule is None or part.max_q > 1:
            return part
        key = part.tokens.start, window
        if key not in self._scheduled:
            made = schedule(q, keys, part, window)
            self._scheduled[key] = replace(part, schedule=made)
        return self._scheduled[key]
