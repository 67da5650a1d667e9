"""Rotary position embedding, in the layout that splits a head in halves."""

import math

import torch

from ..checkpoint import RopeConfig


class Rotary:
    """Tables of angles for every position.

    Args:
        rope: The kind.
        head_dim: Width of a head.
        max_context: Positions.
        device: Where the tables live.
        factors: [head_dim / 2] divisors of the frequencies, for kind ``factors``.
    """

    def __init__(
        self,
        rope: RopeConfig,
        head_dim: int,
        max_context: int,
        device: torch.device,
        factors: torch.Tensor | None = None,
    ) -> None:
        frequencies = rope_frequencies(rope, head_dim, factors)
        # Double precision: at position 100,000 float32 angles are off by 0.01.
        angles = torch.outer(torch.arange(max_context).double(), frequencies)
        cos, sin = angles.cos(), angles.sin()
        self._half = head_dim // 2
        self._cos = torch.cat([cos, cos], -1).float().to(device)
        self._sin = torch.cat([-sin, sin], -1).float().to(device)

    @property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines: [positions, head_dim] float32 each."""
        return self._cos, self._sin

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Look up cosines and signed sines: [tokens, 1, head_dim] float32 each."""
        return self._cos[positions, None], self._sin[positions, None]

    def rotate(
        self, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]
    ) -> torch.Tensor:
        """Rotate heads, in float32.

        Args:
            x: [tokens, heads, head_dim].
            angles: What ``at`` gave for the tokens.
        """
        cos, sin = angles
        exact = x.float()
        rotated = torch.addcmul(exact * cos, exact.roll(self._half, -1), sin)
        return rotated.to(x.dtype)


def rope_frequencies(
    rope: RopeConfig, head_dim: int, factors: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute radians per position: [head_dim / 2] float64."""
    steps = torch.arange(0, head_dim, 2).double() / head_dim
    frequencies = rope.theta**-steps
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        return _llama3(rope, frequencies)
    if rope.kind == "factors":
        assert factors is not None, "the checkpoint was checked to have them"
        return frequencies / factors.double().cpu()
    return frequencies


def _llama3(rope: RopeConfig, frequencies: torch.Tensor) -> torch.Tensor:
    """Stretch low frequencies, as Llama 3.1's published model code defines."""
    turns = rope.original_context * frequencies / (2 * math.pi)
    span = rope.high_freq_factor - rope.low_freq_factor
    kept = ((turns - rope.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / rope.factor)
