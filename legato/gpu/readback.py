"""Reads small tensors back as Python numbers; torch's own ``tolist`` has no types."""

from typing import cast

import torch


def integers(tensor: torch.Tensor) -> list[int]:
    """Read a tensor of [n] integers, waiting for the device."""
    return cast(list[int], tensor.tolist())  # pyright: ignore[reportUnknownMemberType]


def reals(tensor: torch.Tensor) -> list[float]:
    """Read a tensor of [n] floating numbers, waiting for the device."""
    return cast(list[float], tensor.tolist())  # pyright: ignore[reportUnknownMemberType]
