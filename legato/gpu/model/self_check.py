"""Whether the kernels compute on this machine what torch does.

A compiler or a processor may be wrong in ways that no other machine shows. So what was
loaded is tried once, before it answers anybody: a few products with the loaded weights
and an attention of the model's shape, against float32 torch.
"""

import numpy as np
import torch

from ..attention import AttentionBatch, KvCache
from ..attention.native import NativeAttention
from ..attention.reference import ReferenceAttention
from ..checkpoint import Blocks, Checkpoint, ModelConfig
from ..checkpoint.parameters import EMBEDDING, HEAD
from ..native import Kernels
from .packed import PackedProjection
from .projection import Projection
from .weights import DecoderWeights, load_layer

CPU = torch.device("cpu")
# Of the length of what comes out. Weights or activations rounded to 8 bits are off by
# 0.005, a wrong lane or a sum that overflowed by far more.
ROUNDED, EXACT = 0.03, 2e-3
ROWS = 4  # more than share a weight in registers
HEAD_ROWS = 256


def find_fault(
    checkpoint: Checkpoint,
    weights: DecoderWeights,
    kernels: Kernels,
    num_threads: int,
) -> str:
    """Try the kernels; say what is wrong, or "".

    Args:
        checkpoint: Open; what the weights were packed from.
        weights: Packed.
        kernels: The library that packed them.
        num_threads: Of the kernels.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    config = checkpoint.config
    for index in sorted({0, config.num_layers - 1}):
        exact, packed = load_layer(checkpoint, index), weights.layers[index]
        for name in ("qkv", "output", "gate_up", "down"):
            want: Projection = getattr(exact, name)
            x = _activations(_packed(getattr(packed, name)).weights.ins)
            got = getattr(packed, name).apply(x)
            tolerance = _tolerance(getattr(packed, name))
            if fault := _compare(
                f"{name} of layer {index}", got, want.apply(x), tolerance
            ):
                return fault
    return _head(checkpoint, weights) or _attention(config, kernels, num_threads)


def _head(checkpoint: Checkpoint, weights: DecoderWeights) -> str:
    """Try the first and last rows of the head: all of it would be read twice."""
    head = _packed(weights.head)
    tied = checkpoint.config.tied_embeddings
    name = EMBEDDING if tied else HEAD
    blocks = checkpoint.blocks(name)
    matrix = None if blocks else checkpoint.parameter(name)
    x = _activations(head.weights.ins)
    got, tolerance = head.apply(x), _tolerance(head)
    for place, rows in (("first", slice(HEAD_ROWS)), ("last", slice(-HEAD_ROWS, None))):
        if blocks:
            exact = torch.asarray(Blocks(blocks.kind, blocks.rows[rows]).floats())
        else:
            assert matrix is not None, "there are no blocks"
            exact = matrix[rows].float()
        want = x @ exact.T
        if fault := _compare(f"{place} of the head", got[:, rows], want, tolerance):
            return fault
    return ""


def _attention(config: ModelConfig, kernels: Kernels, num_threads: int) -> str:
    """Try a decode and a chunk over pages in a mixed order."""
    heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
    cache = KvCache(
        num_layers=1,
        num_pages=8,
        page_size=8,
        num_kv_heads=kv_heads,
        head_dim=dim,
        dtype=torch.float32,
        device=CPU,
    )
    cache.keys.copy_(_activations(cache.keys.numel())[0].view_as(cache.keys))
    cache.values.copy_(_activations(cache.values.numel())[1].view_as(cache.values))
    batch = AttentionBatch.of(
        *(np.array([27, 3]), np.array([1, 11])),
        np.array([[5, 0, 7, 2], [1, 6, 4, 3]]),
        page_size=8,
        device=CPU,
    )
    q, k, v = (
        _activations(12 * count * dim)[0].view(12, count, dim)
        for count in (heads, kv_heads, kv_heads)
    )
    native = NativeAttention(cache, heads, kernels, num_threads)
    got = native.prepare(batch).attend(0, q, k, v)
    want = ReferenceAttention(cache, heads).prepare(batch).attend(0, q, k, v)
    return _compare("attention", got, want, EXACT)


def _activations(width: int) -> torch.Tensor:
    """Rows with a few numbers far above the others, as real ones have."""
    normal = torch.randn(ROWS, width, generator=torch.Generator().manual_seed(1))
    return normal * normal.abs()


def _packed(projection: Projection) -> PackedProjection:
    assert isinstance(projection, PackedProjection), "the loader packed them"
    return projection


def _tolerance(projection: PackedProjection) -> float:
    exact = projection.is_exact and not projection.is_coarse
    return EXACT if exact else ROUNDED


def _compare(what: str, got: torch.Tensor, want: torch.Tensor, tolerance: float) -> str:
    error, size = (got - want).square().sum().sqrt(), want.square().sum().sqrt()
    off = float(error) / max(float(size), 1e-20)
    # Not "off > tolerance": NaN must not pass.
    return "" if off <= tolerance else f"{what} is off by {off:.2g}"
