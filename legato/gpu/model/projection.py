"""A weight matrix and how activations go through it.

The seam for packed and quantized weights: another class with the same two methods.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from ..checkpoint import Blocks, GgufType
from .embedding import Embedding


class Projection(Protocol):
    """A linear map from [rows, in] to [rows, out]."""

    @property
    def num_bytes(self) -> int:
        """Memory of its weights."""
        ...

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        ...

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual of [rows, out]."""
        ...


class DenseProjection:
    """A projection through torch's own matrix product, in the weight's type.

    Args:
        weight: [out, in].
        bias: [out], or None.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    @property
    def num_bytes(self) -> int:
        """Memory of its weights."""
        parts = (self.weight, self.bias)
        return sum(part.nbytes for part in parts if part is not None)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows of any type."""
        return torch.nn.functional.linear(
            x.to(self.weight.dtype), self.weight, self.bias
        )

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual, which keeps its type."""
        if residual.dtype != self.weight.dtype:
            return residual + self.apply(x)
        if self.bias is not None:
            residual = residual + self.bias
        return torch.addmm(residual, x, self.weight.t())


class SlimProjection(DenseProjection):
    """A projection for float32 on a CPU, quicker for a few rows at once.

    With the weight as the left operand, MKL takes 1.25 ms instead of 2.15 for 2 rows
    through 3072 x 576 on one core, and 14 instead of 36 for 4 through 49152 x 576; from
    16 rows on there is nothing to gain.
    """

    FEW = range(2, 17)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        if len(x) not in self.FEW:
            return super().apply(x)
        # Contiguous: attention kernels take a head's numbers to be side by side.
        projected = torch.mm(self.weight, x.t()).t().contiguous()
        return projected if self.bias is None else projected.add_(self.bias)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual."""
        if len(x) not in self.FEW:
            return super().add(x, residual)
        return residual + self.apply(x)


class Packing(Protocol):
    """How a checkpoint's matrices become projections."""

    @property
    def kinds(self) -> frozenset[GgufType]:
        """Blocks it takes as they are stored."""
        ...

    def pack(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> Projection:
        """Make a projection of a weight of [out, in] and a bias of [out]."""
        ...

    def pack_blocks(
        self,
        parts: Sequence[Blocks],
        bias: torch.Tensor | None = None,
    ) -> Projection:
        """Make one projection of matrices of one of the kinds, one above the other."""
        ...

    def rows_of(self, head: Projection) -> Embedding | None:
        """Take a tied embedding out of its head, if the head holds it exactly."""
        ...

    def table(self, matrix: torch.Tensor) -> torch.Tensor:
        """Choose how an embedding of [vocab, hidden] is held."""
        ...


class DensePacking:
    """Projections in torch's own matrices.

    Args:
        dtype: Of the weights.
        device: Where they are.
    """

    kinds: frozenset[GgufType] = frozenset()

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        is_slim = dtype == torch.float32 and device.type == "cpu"
        self._kind = SlimProjection if is_slim else DenseProjection

    def pack(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> Projection:
        """Take a matrix as it is."""
        return self._kind(weight, bias)

    def pack_blocks(
        self,
        parts: Sequence[Blocks],
        bias: torch.Tensor | None = None,
    ) -> Projection:
        """Never asked: there are no kinds."""
        raise NotImplementedError

    def rows_of(self, head: Projection) -> Embedding | None:
        """Leave it to the table: it is the head's own matrix."""

    def table(self, matrix: torch.Tensor) -> torch.Tensor:
        """Take it as it is."""
        return matrix
