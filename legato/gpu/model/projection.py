"""A weight matrix and how activations go through it.

The seam for packed and quantized weights: another class with the same two methods.
"""

from typing import Protocol

import torch


class Projection(Protocol):
    """A linear map from [rows, in] to [rows, out]."""

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        ...

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual of [rows, out]."""
        ...


class DenseProjection:
    """A projection through torch's own matrix product.

    Args:
        weight: [out, in].
        bias: [out], or None.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        return torch.nn.functional.linear(x, self.weight, self.bias)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual, in one operator."""
        if self.bias is not None:
            residual = residual + self.bias
        return torch.addmm(residual, x, self.weight.t())
