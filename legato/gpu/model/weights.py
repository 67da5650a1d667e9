"""A model's weights in memory, fused where the forward pass reads them together."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch.nn import functional

from ..checkpoint import Checkpoint
from ..checkpoint.parameters import EMBEDDING, FINAL_NORM, HEAD, ROPE_FACTORS
from ..parallel.shard import Shard
from .embedding import Embedding, TableEmbedding
from .projection import DensePacking, Packing, Projection
from .sharded import GatheredProjection, SharedEmbedding, SummedProjection

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer.

    Args:
        input_norm: [hidden] float32, as all norms are.
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
        embedding: Of tokens.
        layers: In order.
        final_norm: [hidden] float32.
        head: To logits.
        rope_factors: [head_dim / 2], or None.
        num_bytes: Memory of all of them.
    """

    embedding: Embedding
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
    packing: Packing | None = None,
    progress: Progress | None = None,
    shard: Shard | None = None,
) -> DecoderWeights:
    """Read a checkpoint into memory, or a rank's part of it.

    At most one parameter a thread is held twice at a time; the embedding, usually the
    largest, comes first and alone.

    Args:
        checkpoint: Open.
        dtype: Of the matrices.
        device: Where they go.
        packing: Makes projections; None chooses.
        progress: Called with the share done, 0 to 1, and what is being done.
        shard: Which part; None is all.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    packing = packing or DensePacking(dtype, device)
    shard = shard or Shard(checkpoint.config)
    return _Loader(checkpoint, dtype, device, packing, progress, shard).load()


def load_layer(checkpoint: Checkpoint, index: int) -> LayerWeights:
    """Read one layer into float32 on the CPU, its projections dense.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    device = torch.device("cpu")
    packing = DensePacking(torch.float32, device)
    shard = Shard(checkpoint.config)
    loader = _Loader(checkpoint, torch.float32, device, packing, None, shard)
    return loader.layer(index)


class _Loader:
    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype,
        device: torch.device,
        packing: Packing,
        progress: Progress | None,
        shard: Shard,
    ) -> None:
        self.checkpoint = checkpoint
        self.shard = shard
        self.config = shard.config
        self.dtype = dtype
        self.device = device
        self.packing = packing
        self.progress = progress
        self.num_bytes = 0

    def load(self) -> DecoderWeights:
        config = self.config
        self._report(0.0)
        head, embedding = self._joined(*self._ends())
        factors = self._tensor(ROPE_FACTORS) if config.rope.kind == "factors" else None
        layers = tuple(self._layers())
        norm = self._tensor(FINAL_NORM)
        self._report(1.0)
        return DecoderWeights(embedding, layers, norm, head, factors, self.num_bytes)

    def _ends(self) -> tuple[Projection, Embedding]:
        """Read head and embedding; where they are tied, both from one matrix."""
        if not self.config.tied_embeddings:
            head = self._projection([HEAD])
            table = self.packing.table(self._stored(EMBEDDING))
            self.num_bytes += table.nbytes
            return head, TableEmbedding(table)
        head = self._from_blocks([EMBEDDING], None)
        if head is not None and (embedding := self.packing.rows_of(head)):
            self.num_bytes += head.num_bytes
            return head, embedding
        matrix = self._stored(EMBEDDING)
        head, table = self.packing.pack(matrix, None), self.packing.table(matrix)
        self.num_bytes += table.nbytes
        if table is not matrix:
            self.num_bytes += head.num_bytes
        return head, TableEmbedding(table)

    def _joined(
        self, head: Projection, embedding: Embedding
    ) -> tuple[Projection, Embedding]:
        """Let ranks that have parts of the vocabulary act as one."""
        shard, group = self.shard, self.shard.group
        if group is None:
            return head, embedding
        return (
            GatheredProjection(head, group, self.config.vocab_size),
            SharedEmbedding(embedding, shard.vocab_rows, group),
        )

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
        loader = _Loader(
            *(self.checkpoint, self.dtype, self.device, self.packing, None),
            self.shard,
        )
        return loader.layer(index), loader.num_bytes

    def layer(self, index: int) -> LayerWeights:
        """Read one layer."""
        config, prefix = self.config, f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn", f"{prefix}mlp"
        qkv, bias = (
            [f"{attention}.{name}_proj.{kind}" for name in "qkv"]
            for kind in ("weight", "bias")
        )
        output_bias = [f"{attention}.o_proj.bias"]
        return LayerWeights(
            input_norm=self._tensor(f"{prefix}input_layernorm.weight"),
            qkv=self._projection(qkv, bias if config.qkv_bias else ()),
            qk_norm=self._qk_norm(prefix) if config.qk_norm else None,
            output=self._summed(
                f"{attention}.o_proj.weight",
                output_bias if config.output_bias else (),
            ),
            mlp_norm=self._tensor(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self._projection(
                [f"{mlp}.{name}_proj.weight" for name in ("gate", "up")]
            ),
            down=self._summed(f"{mlp}.down_proj.weight"),
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

    def _summed(self, name: str, biases: Sequence[str] = ()) -> Projection:
        """Read a matrix behind which the ranks' parts become one again."""
        group = self.shard.group
        if group is None:
            return self._projection([name], biases)
        # A bias is of the sum, so one rank alone adds it.
        part = self._projection([name], biases if group.rank == 0 else ())
        return SummedProjection(part, group)

    def _projection(
        self, names: Sequence[str], biases: Sequence[str] = ()
    ) -> Projection:
        bias = self._fused(biases) if biases else None
        made = self._from_blocks(names, bias)
        if made is None:
            made = self.packing.pack(self._fused(names), bias)
        self.num_bytes += made.num_bytes
        return made

    def _from_blocks(
        self, names: Sequence[str], bias: torch.Tensor | None
    ) -> Projection | None:
        """Pack as stored, where all are of one kind that packing takes."""
        if not self.packing.kinds:
            return None
        parts = [self.checkpoint.blocks(name) for name in names]
        known = [part for part in parts if part and part.kind in self.packing.kinds]
        if len(known) < len(names) or len({part.kind for part in known}) > 1:
            return None
        return self.packing.pack_blocks(known, bias)

    def _fused(self, names: Sequence[str]) -> torch.Tensor:
        if len(names) == 1:
            return self._stored(names[0])
        return torch.cat([self._stored(name) for name in names])

    def _tensor(self, name: str) -> torch.Tensor:
        """Read what is small and is not multiplied by: it stays exact."""
        tensor = self.checkpoint.parameter(name).to(self.device, torch.float32)
        self.num_bytes += tensor.nbytes
        return tensor

    def _stored(self, name: str) -> torch.Tensor:
        # To the device as it is mapped, and converted there: on the host a copy more.
        part = self.shard.part(name)
        stored = self.checkpoint.parameter(name, part).to(self.device).to(self.dtype)
        missing = self.shard.vocab_rows - len(stored)
        if name in (EMBEDDING, HEAD) and missing:
            return functional.pad(stored, (0, 0, 0, missing))
        return stored
