"""The forward pass of the Llama family: Llama, Mistral, Qwen 2 and 3."""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch.nn import functional

from ..attention import AttentionBackend, AttentionBatch, StepAttention
from ..checkpoint import ModelConfig
from .rotary import Rotary
from .weights import DecoderWeights, LayerWeights

Angles = tuple[torch.Tensor, torch.Tensor]


class LogitsTaker(Protocol):
    """Wants logits of more tokens than may be held at once."""

    def parts(self) -> Iterator[torch.Tensor]:
        """[n] int64 each: which tokens."""
        ...

    def take(self, logits: torch.Tensor) -> None:
        """Take those of the next part: [n, vocab] float32."""
        ...


class Forward(Protocol):
    """A model over a cache that computes steps."""

    def forward(
        self,
        ids: torch.Tensor,
        batch: AttentionBatch,
        sampling: torch.Tensor,
        scoring: LogitsTaker | None = None,
    ) -> torch.Tensor:
        """Compute a step, as ``Decoder.forward`` says."""
        ...


class Decoder:
    """A model with its weights and its attention.

    Args:
        config: Its shape.
        weights: Its weights.
        attention: Over a cache of as many layers.
        max_context: Positions to prepare for.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: DecoderWeights,
        attention: AttentionBackend,
        max_context: int,
    ) -> None:
        self._config = config
        self._weights = weights
        self._attention = attention
        self._rotary = Rotary(
            config.rope,
            config.head_dim,
            max_context,
            weights.final_norm.device,
            weights.rope_factors,
        )

    def forward(
        self,
        ids: torch.Tensor,
        batch: AttentionBatch,
        sampling: torch.Tensor,
        scoring: LogitsTaker | None = None,
    ) -> torch.Tensor:
        """Compute a step.

        Args:
            ids: [tokens] int64.
            batch: Where they belong.
            sampling: [rows] int64: the tokens whose logits are wanted; only they go
                through the head.
            scoring: Takes logits of others, part by part.

        Returns:
            Logits: [rows, vocab] float32.
        """
        attention = self._attention.prepare(batch)
        return self.run(ids, batch.positions, attention, sampling, scoring)

    def run(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        attention: StepAttention,
        sampling: torch.Tensor,
        scoring: LogitsTaker | None = None,
    ) -> torch.Tensor:
        """Compute a step that is prepared already, a static one say.

        Args:
            ids: [tokens] int64.
            positions: [tokens] int64.
            attention: Of the step.
            sampling: As in ``forward``.
            scoring: As in ``forward``; not of a static step.

        Returns:
            As ``forward``.
        """
        weights = self._weights
        angles = self._rotary.at(positions)
        # Whatever the weights' type, the residual stream is float32: rounded to 8 bits
        # at each of 60 additions, SmolLM2's two likeliest tokens change places.
        x = weights.embedding.rows(ids).float()
        for index, layer in enumerate(weights.layers):
            x = self._attend(x, layer, index, attention, angles)
            x = self._mlp(x, layer)
        if scoring is not None:
            for part in scoring.parts():
                scoring.take(self._logits(x[part]))
        return self._logits(x[sampling])

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        x = self._norm(x, self._weights.final_norm)
        return self._weights.head.apply(x).float()

    def _attend(
        self,
        x: torch.Tensor,
        layer: LayerWeights,
        index: int,
        attention: StepAttention,
        angles: Angles,
    ) -> torch.Tensor:
        config = self._config
        heads, kv_heads = config.num_heads, config.num_kv_heads
        qkv = layer.qkv.apply(self._norm(x, layer.input_norm))
        qkv = qkv.view(len(x), heads + 2 * kv_heads, config.head_dim)
        qk = qkv[:, : heads + kv_heads]
        if layer.qk_norm is not None:
            qk = self._norm(qk, None) * layer.qk_norm
        v = qkv[:, heads + kv_heads :]
        qk = self._rotary.rotate(qk, angles).to(v.dtype)
        out = attention.attend(index, qk[:, :heads], qk[:, heads:], v)
        return layer.output.add(out.view(len(x), -1), x)

    def _mlp(self, x: torch.Tensor, layer: LayerWeights) -> torch.Tensor:
        gate, up = layer.gate_up.apply(self._norm(x, layer.mlp_norm)).chunk(2, -1)
        return layer.down.add(functional.silu(gate) * up, x)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, eps=self._config.norm_eps)
