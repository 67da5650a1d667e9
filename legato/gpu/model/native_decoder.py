"""The forward pass of the Llama family in one call to the kernels."""

import ctypes

import numpy as np
import torch
from torch.nn import functional

from ...protocol.steps import RunnerLimits
from ..attention import AttentionBatch, KvCache
from ..attention.native import RowArrays, cache_structure
from ..attention.tensors import Ints
from ..checkpoint import ModelConfig
from ..native.library import Kernels, address
from ..native.structures import Decodes, Int, Layer, Model, Step, Weights, Wish
from ..native.structures import Embedding as EmbeddingStructure
from .decoder import LogitsTaker
from .embedding import Embedding, TableEmbedding
from .packed import PackedEmbedding, PackedProjection
from .projection import Projection
from .rotary import Rotary
from .weights import DecoderWeights, LayerWeights

# As the kernels number them.
TABLE_KINDS = (torch.float32, torch.float16, torch.bfloat16)


class NativeDecoder:
    """A model whose layers run without a return to Python.

    Args:
        config: Its shape.
        weights: Its weights; projections packed, the rest float32.
        cache: The pool, float16 or float32.
        kernels: The library.
        limits: Of the runner.
        num_threads: Of the kernels.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: DecoderWeights,
        cache: KvCache,
        kernels: Kernels,
        limits: RunnerLimits,
        num_threads: int,
    ) -> None:
        rotary = Rotary(
            config.rope,
            config.head_dim,
            limits.max_context,
            weights.final_norm.device,
            weights.rope_factors,
        )
        self._config = config
        self._kernels = kernels
        # What the structures below point into.
        self._kept = (weights, cache, rotary)
        self._embedding = weights.embedding
        self._head, self._final_norm = weights.head, weights.final_norm
        self._layers = (Layer * config.num_layers)(*map(_layer, weights.layers))
        self._model = Model(
            *(config.num_layers, config.hidden, config.num_heads, config.ffn),
            self._layers,
            address(weights.final_norm),
            _packed(weights.head),
            *map(address, rotary.tables),
            cache_structure(cache, 0),
            cache.num_pages * cache.page_size,
            config.norm_eps,
            _embedding(weights.embedding, config.hidden),
        )
        self._decoder = kernels.decoder(self, self._model, num_threads)

    def forward(
        self,
        ids: torch.Tensor,
        batch: AttentionBatch,
        sampling: torch.Tensor,
        scoring: LogitsTaker | None = None,
    ) -> torch.Tensor:
        """Compute a step, as ``Decoder.forward``."""
        x = self._embedding.rows(ids).float()
        logits = torch.empty(len(sampling), self._config.vocab_size)
        rows = RowArrays(batch)
        step = Step(
            rows.structure,
            *(len(ids), len(sampling), scoring is not None),
            *map(address, (batch.positions, batch.cells, sampling, x, logits)),
        )
        self._kernels.forward(self._decoder, ctypes.byref(step))
        if scoring is not None:
            # The kernels leave in x what goes through the head.
            for part in scoring.parts():
                scoring.take(self._head.apply(self._norm(x[part])))
        return logits

    @property
    def vocab_size(self) -> int:
        """How many logits a row has."""
        return self._config.vocab_size

    def decode(self, decodes: Decodes) -> int:
        """Run a step of nothing but decodes.

        Returns:
            The place of a row without a page for its token, and then nothing was done;
            or -1.
        """
        return self._kernels.decode(self._decoder, ctypes.byref(decodes))

    def choose(
        self,
        logits: torch.Tensor,
        rows: Ints,
        wishes: "ctypes.Array[Wish]",
        outputs: Ints,
    ) -> Ints:
        """Choose tokens as decodes do.

        Args:
            logits: [all rows, vocab] float32; those chosen from are changed.
            rows: [rows] int64: which of them.
            wishes: [rows].
            outputs: [rows] int64: the numbers of the output tokens.
        """
        tokens = np.zeros(len(rows), np.int64)
        self._kernels.choose(
            *(self._decoder, address(logits), rows.ctypes.data, wishes),
            *(outputs.ctypes.data, Int(len(rows)), tokens.ctypes.data),
        )
        return tokens

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(
            x, (x.shape[-1],), self._final_norm, eps=self._config.norm_eps
        )


def _embedding(embedding: Embedding, hidden: int) -> EmbeddingStructure:
    if isinstance(embedding, PackedEmbedding):
        return EmbeddingStructure(ctypes.pointer(embedding.head.weights))
    assert isinstance(embedding, TableEmbedding), "native models are not divided"
    kind = TABLE_KINDS.index(embedding.table.dtype)
    return EmbeddingStructure(None, address(embedding.table), hidden, kind)


def _layer(layer: LayerWeights) -> Layer:
    return Layer(
        address(layer.input_norm),
        _packed(layer.qkv),
        None if layer.qk_norm is None else address(layer.qk_norm),
        _packed(layer.output),
        address(layer.mlp_norm),
        *map(_packed, (layer.gate_up, layer.down)),
    )


def _packed(projection: Projection) -> Weights:
    assert isinstance(projection, PackedProjection), "the loader packed them"
    return projection.weights
