"""The interface of every attention backend."""

from typing import Protocol, runtime_checkable

import torch

from .batch import AttentionBatch
from .static import StaticStep


class StepAttention(Protocol):
    """Attention of one step, for all its layers."""

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        """Store keys and values, then let each token attend to its past and itself.

        A layer with a window of W sees a token's W last positions, its own included. A
        head's numbers lie side by side; other strides may be any.

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


@runtime_checkable
class CapturableAttention(AttentionBackend, Protocol):
    """One whose decode steps a CUDA graph can capture."""

    def reserve(self, rows: int, pages: int, spare_page: int) -> StaticStep:
        """Reserve a decode step of a fixed shape, to be filled again and again.

        Its ``attend`` reads nothing on the host and nothing that moves.

        Args:
            rows: Sequences, one token each.
            pages: Most pages of a sequence: what the context needs.
            spare_page: A page of the pool that no sequence has; rows that ``fill``
                leaves over write and read its first cell.
        """
        ...
