"""A decode step whose tensors stay where they are, as a CUDA graph needs it."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from .cache import KvCache
from .tensors import Ints, StepTensors


class Attend(Protocol):
    """Attention over tensors that were bound to it."""

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As ``StepAttention`` says."""
        ...


class StaticStep:
    """A decode step of a fixed shape, one token to a row.

    Who captures it runs the model over ``tensors.positions`` with this as the step's
    attention; before each replay ``fill`` puts other rows into the same tensors, after
    the work that was queued on the stream before. On the device itself they may be
    filled in any other way: every row then has a position, a cell, a length and pages.

    Args:
        cache: The pool; the tensors live where it does.
        rows: Sequences.
        pages: Most pages of each.
        spare_page: A page of the pool that no sequence has, for padding rows.
        bind: Makes the attention that reads them.
    """

    def __init__(
        self,
        cache: KvCache,
        rows: int,
        pages: int,
        spare_page: int,
        bind: Callable[[StepTensors], Attend],
    ) -> None:
        self._shape = (rows, pages)
        self._page_size = cache.page_size
        self._spare_page = spare_page
        nobody = np.zeros(0, np.int64), np.zeros((0, pages), np.int64)
        self.tensors = self.lay_out(*nobody).to(cache.keys.device)
        self._attention = bind(self.tensors)

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """As ``StepAttention`` says; padding rows come last and mean nothing."""
        return self._attention.attend(layer, q, k, v)

    def fill(self, starts: Ints, tables: Ints) -> None:
        """Take other rows, without waiting for the device.

        Args:
            starts: [rows] position of each row's token; at most as many rows as are
                reserved, the others become padding.
            tables: [rows, pages] block tables, at most as wide as reserved; beyond a
                row's last page anything goes.

        Raises:
            ValueError: More rows or pages than were reserved.
        """
        self.tensors.replace(self.lay_out(starts, tables))

    def lay_out(self, starts: Ints, tables: Ints) -> StepTensors:
        """Lay rows out on the host, for who copies them himself: as ``fill``.

        Returns:
            As many rows as are reserved, their tables as wide as given.

        Raises:
            ValueError: More rows or pages than were reserved.
        """
        (rows, pages), size = self._shape, self._page_size
        given, width = tables.shape
        if given > rows or width > pages or len(starts) != given:
            raise ValueError(
                f"{len(starts)} rows with {given} tables of {width} pages do not fit "
                f"{rows} rows of {pages} pages"
            )
        positions = np.zeros(rows, np.int64)
        positions[:given] = starts
        padded = np.full((rows, max(width, 1)), self._spare_page)
        padded[:given, :width] = tables
        places = padded[np.arange(rows), positions // size]
        return StepTensors.on_host(
            positions=positions,
            cells=places * size + positions % size,
            counts=np.ones(rows, np.int64),
            lengths=positions + 1,
            tables=padded,
        )
