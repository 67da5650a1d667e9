"""The interface of every attention backend."""

from typing import Protocol

import torch

from .batch import AttentionBatch


class StepAttention(Protocol):
    """Attention of one step, for all its layers."""

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """Store keys and values, then let each token attend to its past and itself.

        A head's numbers lie side by side; other strides may be any.

        Args:
            layer: Which.
            q: [tokens, heads, head_dim].
            k: [tokens, kv_heads, head_dim].
            v: The same.

        Returns:
            [tokens, heads, head_dim].
        """
        ...


class AttentionBackend(Protocol):
    """A way to compute attention over a paged cache."""

    def prepare(self, batch: AttentionBatch) -> StepAttention:
        """Do, once a step, what all layers share."""
        ...
