"""Projections and embeddings of which each rank has a part."""

import torch

from ..parallel.group import Group
from .embedding import Embedding
from .projection import Projection


class SummedProjection:
    """A matrix split by its columns: each rank has a part of what goes in.

    Args:
        part: This rank's; with the bias on one rank alone.
        group: The ranks.
    """

    def __init__(self, part: Projection, group: Group) -> None:
        self._part = part
        self._group = group
        self.num_bytes = part.num_bytes

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        return self._group.sum(self._part.apply(x))

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual, which is the same on each rank."""
        return residual + self.apply(x)


class GatheredProjection:
    """A matrix split by its rows, of which every rank wants all that comes out.

    Args:
        part: This rank's, as large as the others'.
        group: The ranks.
        width: Of what comes out; behind it all is filling.
    """

    def __init__(self, part: Projection, group: Group, width: int) -> None:
        self._part = part
        self._group = group
        self._width = width
        self.num_bytes = part.num_bytes

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        return self._group.gather(self._part.apply(x))[:, : self._width]

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual."""
        return residual + self.apply(x)


class SharedEmbedding:
    """Vectors of which each rank has some.

    Args:
        part: This rank's.
        count: How many it has; the first is of token ``rank * count``.
        group: The ranks.
    """

    def __init__(self, part: Embedding, count: int, group: Group) -> None:
        self._part = part
        self._first = group.rank * count
        self._count = count
        self._group = group

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up vectors: all ranks but one add zeros."""
        here = ids - self._first
        absent = (here < 0) | (here >= self._count)
        found = self._part.rows(here.clamp(0, self._count - 1))
        return self._group.sum(found.masked_fill(absent[:, None], 0))
