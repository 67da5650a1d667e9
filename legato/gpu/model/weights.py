"""A model's weights in memory, fused where the forward pass reads them together."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from ..checkpoint import Checkpoint
from ..checkpoint.parameters import EMBEDDING, FINAL_NORM, HEAD, ROPE_FACTORS
from .projection import DenseProjection, Projection, choose_projection

Progress = Callable[[float, str], None]
Pack = Callable[[torch.Tensor, torch.Tensor | None], Projection]


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer.

    Args:
        input_norm: [hidden].
        qkv: To queries, keys and values, in this order.
        qk_norm: [heads + kv_heads, head_dim], or None.
        output: Of the attention.
        mlp_norm: [hidden].
        gate_up: To gate and up, in this order.
        down: Of the MLP.
    """

    input_norm: torch.Tensor
    qkv: Projection
    qk_norm: torch.Tensor | None
    output: Projection
    mlp_norm: torch.Tensor
    gate_up: Projection
    down: Projection


@dataclass(frozen=True)
class DecoderWeights:
    """A whole model.

    Args:
        embedding: [vocab, hidden].
        layers: In order.
        final_norm: [hidden].
        head: To logits.
        rope_factors: [head_dim / 2], or None.
        num_bytes: Memory of all of them.
    """

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: Projection
    rope_factors: torch.Tensor | None
    num_bytes: int


def load_weights(
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    *,
    pack: Pack | None = None,
    progress: Progress | None = None,
) -> DecoderWeights:
    """Read a checkpoint into memory.

    At most one parameter a thread is held twice at a time; the embedding, usually the
    largest, comes first and alone.

    Args:
        checkpoint: Open.
        dtype: Of the weights.
        device: Where they go.
        pack: Makes a projection of weight and bias; None chooses.
        progress: Called with the share done, 0 to 1, and what is being done.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    pack = pack or choose_projection(dtype, device)
    return _Loader(checkpoint, dtype, device, pack, progress).load()


def load_layer(checkpoint: Checkpoint, index: int) -> LayerWeights:
    """Read one layer into float32 on the CPU, its projections dense.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    device = torch.device("cpu")
    loader = _Loader(checkpoint, torch.float32, device, DenseProjection, None)
    return loader.layer(index)


class _Loader:
    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device,
        pack: Pack,
        progress: Progress | None,
    ) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.dtype = dtype
        self.device = device
        self.pack = pack
        self.progress = progress
        self.num_bytes = 0

    def load(self) -> DecoderWeights:
        config = self.config
        self._report(0.0)
        embedding = self._tensor(EMBEDDING)
        factors = self._tensor(ROPE_FACTORS) if config.rope.kind == "factors" else None
        layers = tuple(self._layers())
        norm = self._tensor(FINAL_NORM)
        tied = config.tied_embeddings
        head = self.pack(embedding if tied else self._stored(HEAD), None)
        if not (tied and isinstance(head, DenseProjection)):
            self.num_bytes += head.num_bytes
        self._report(1.0)
        return DecoderWeights(embedding, layers, norm, head, factors, self.num_bytes)

    def _report(self, fraction: float) -> None:
        if self.progress is not None:
            self.progress(fraction, f"loading {self.checkpoint.name}")

    def _layers(self) -> Iterator[LayerWeights]:
        """Read layers side by side: most of dequantizing runs without the GIL."""
        count = self.config.num_layers
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
            loaded = threads.map(self._apart, range(count))
            for index, (layer, num_bytes) in enumerate(loaded):
                self.num_bytes += num_bytes
                self._report((index + 1) / (count + 1))
                yield layer

    def _apart(self, index: int) -> tuple[LayerWeights, int]:
        """Read one layer with a count of its own, for a thread of its own."""
        loader = _Loader(self.checkpoint, self.dtype, self.device, self.pack, None)
        return loader.layer(index), loader.num_bytes

    def layer(self, index: int) -> LayerWeights:
        """Read one layer."""
        config, prefix = self.config, f"model.layers.{index}."
        qkv = [f"{prefix}self_attn.{name}_proj" for name in "qkv"]
        ffn = [f"{prefix}mlp.{name}_proj" for name in ("gate", "up")]
        qk_norm = self._qk_norm(prefix) if config.qk_norm else None
        return LayerWeights(
            input_norm=self._tensor(f"{prefix}input_layernorm.weight"),
            qkv=self._projection(qkv, bias=config.qkv_bias),
            qk_norm=qk_norm,
            output=self._projection(
                [f"{prefix}self_attn.o_proj"], bias=config.output_bias
            ),
            mlp_norm=self._tensor(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self._projection(ffn),
            down=self._projection([f"{prefix}mlp.down_proj"]),
        )

    def _qk_norm(self, prefix: str) -> torch.Tensor:
        norms = (
            self._tensor(f"{prefix}self_attn.{name}_norm.weight").expand(heads, -1)
            for name, heads in (
                ("q", self.config.num_heads),
                ("k", self.config.num_kv_heads),
            )
        )
        return torch.cat(list(norms))

    def _projection(self, names: Sequence[str], *, bias: bool = False) -> Projection:
        weight = self._fused([f"{name}.weight" for name in names])
        biases = self._fused([f"{name}.bias" for name in names]) if bias else None
        made = self.pack(weight, biases)
        self.num_bytes += made.num_bytes
        return made

    def _fused(self, names: Sequence[str]) -> torch.Tensor:
        if len(names) == 1:
            return self._stored(names[0])
        return torch.cat([self._stored(name) for name in names])

    def _tensor(self, name: str) -> torch.Tensor:
        tensor = self._stored(name)
        self.num_bytes += tensor.nbytes
        return tensor

    def _stored(self, name: str) -> torch.Tensor:
        return self.checkpoint.parameter(name).to(self.device, self.dtype)
