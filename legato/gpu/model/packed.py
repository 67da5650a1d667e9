"""Weights in small integers, and their products.

A weight is a whole number, for 32 of them along a row times a scale and, of 4 bits,
above an offset. GGUF's Q4_0, Q4_1 and Q8_0 blocks are held as they are, and a matrix of
floats that 16 levels hold exactly, as those of such a checkpoint, takes 4 bits a weight
too; packing then adds no error at all.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
import torch

from ..checkpoint import Blocks, Checkpoint, GgufType
from ..native.arena import Arena
from ..native.library import Kernels, address
from ..native.structures import Int, Weights
from .embedding import Embedding
from .projection import Projection
from .weights import DecoderWeights, Progress, load_weights

GROUP = 32
TILE = 32
NIBBLES = (GgufType.Q4_0, GgufType.Q4_1)


class PackedProjection:
    """A projection through packed weights, for float32 activations on a CPU.

    Activations are rounded to 15 bits, for 32 of them at a time; to 8 once it is
    coarsened.

    Args:
        packer: Whose kernels and threads it uses.
        outs: Width of what comes out.
        ins: Of what goes in.
        nibbles: Whether weights have 4 bits, not 8.
        is_exact: Whether the weights given are held without rounding.
        bias: [out] float32, or None.
    """

    def __init__(
        self,
        packer: "Packer",
        *,
        outs: int,
        ins: int,
        nibbles: bool,
        is_exact: bool,
        bias: torch.Tensor | None,
    ) -> None:
        groups = -(-outs // TILE) * -(-ins // GROUP)
        block_bytes = TILE * (GROUP // 2 + 4 if nibbles else GROUP + 2)
        self.is_exact = is_exact
        self._packer = packer
        self._bias = bias
        self.blocks = packer.arena.take(groups * block_bytes)
        self.num_bytes = self.blocks.numel() + (0 if bias is None else bias.nbytes)
        self.weights = Weights(
            address(self.blocks),
            None if bias is None else address(bias),
            *(outs, ins, nibbles),
        )

    def coarsen(self) -> None:
        """Round activations to 8 bits from now on, where kernels can.

        They are told from the least to the most of each 32; one that stands out stays
        exact. Weights of 8 bits and rows that are no multiple of 32 have no such
        kernels and keep 15.
        """
        self.weights.coarse = self.weights.nibbles and self.weights.ins % GROUP == 0

    @property
    def is_coarse(self) -> bool:
        """Whether activations have 8 bits."""
        return bool(self.weights.coarse)

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Project rows."""
        return self._project(x, x.new_empty(len(x), self.weights.outs), add=False)

    def add(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Project rows and add them to a residual."""
        return self._project(x, residual.clone(), add=True)

    def _project(
        self, x: torch.Tensor, out: torch.Tensor, *, add: bool
    ) -> torch.Tensor:
        x = x.contiguous()
        if x.shape[1] != self.weights.ins or x.dtype != torch.float32:
            raise ValueError(f"{x.dtype} rows of {x.shape[1]}, not {self.weights.ins}")
        self._packer.kernels.project(
            self._packer.pool,
            ctypes.byref(self.weights),
            address(x),
            Int(len(x)),
            address(out),
            Int(add),
        )
        return out


class PackedEmbedding:
    """The rows of a packed head that are the embedding too.

    Args:
        kernels: To unpack with.
        head: The head.
    """

    def __init__(self, kernels: Kernels, head: PackedProjection) -> None:
        self._kernels = kernels
        self.head = head

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up vectors.

        Raises:
            IndexError: An id is outside the vocabulary.
        """
        weights = self.head.weights
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < weights.outs:
            raise IndexError(f"a token id of {ids} is outside 0 to {weights.outs - 1}")
        ids, out = ids.contiguous(), torch.empty(len(ids), weights.ins)
        self._kernels.unpack(
            ctypes.byref(weights), address(ids), Int(len(ids)), address(out)
        )
        return out


class Packer:
    """Packs matrices; their projections share its threads.

    Args:
        kernels: The library.
        num_threads: Of a projection.
    """

    kinds = frozenset({*NIBBLES, GgufType.Q8_0})

    def __init__(self, kernels: Kernels, num_threads: int) -> None:
        self.kernels = kernels
        self.arena = Arena()
        self.pool = kernels.pool(self, num_threads)

    def pack(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> PackedProjection:
        """Pack a weight of [out, in] float32."""
        weight = weight.contiguous()
        outs, ins = weight.shape
        nibbles = bool(self.kernels.fits_nibbles(address(weight), outs, ins))
        made = PackedProjection(
            self,
            outs=outs,
            ins=ins,
            nibbles=nibbles,
            is_exact=nibbles,
            bias=bias,
        )
        to = ctypes.byref(made.weights)
        self.kernels.pack(address(weight), to, address(made.blocks))
        return made

    def pack_blocks(
        self,
        parts: Sequence[Blocks],
        bias: torch.Tensor | None = None,
    ) -> PackedProjection:
        """Pack matrices of one kind, one above the other, as they are stored."""
        kind, ins = parts[0].kind, parts[0].shape[1]
        made = PackedProjection(
            self,
            outs=sum(len(part.rows) for part in parts),
            ins=ins,
            nibbles=kind in NIBBLES,
            is_exact=True,
            bias=bias,
        )
        first = 0
        for part in parts:
            if part.kind != kind or part.shape[1] != ins:
                raise ValueError("matrices of different kinds or widths")
            rows = np.ascontiguousarray(part.rows)
            self.kernels.pack_stored(
                *(rows.ctypes.data, Int(kind), Int(len(rows))),
                *(ctypes.byref(made.weights), address(made.blocks), Int(first)),
            )
            first += len(rows)
        return made

    def rows_of(self, head: Projection) -> Embedding | None:
        """Take a tied embedding out of its head."""
        assert isinstance(head, PackedProjection), "made here"
        return PackedEmbedding(self.kernels, head) if head.is_exact else None

    def table(self, matrix: torch.Tensor) -> torch.Tensor:
        """Hold a table in half precision."""
        return matrix.half()


def load_packed_weights(
    checkpoint: Checkpoint,
    kernels: Kernels,
    *,
    num_threads: int,
    activation_bits: int = 0,
    progress: Progress | None = None,
) -> DecoderWeights:
    """Read a checkpoint into packed projections.

    Args:
        checkpoint: Open.
        kernels: To pack and to multiply with.
        num_threads: Of a projection that is used by itself.
        activation_bits: 15 in all products; else 8 in those of the layers.
        progress: As ``load_weights`` has it.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    weights = load_weights(
        checkpoint,
        torch.float32,
        torch.device("cpu"),
        packing=Packer(kernels, num_threads),
        progress=progress,
    )
    if activation_bits != 15:
        for layer in weights.layers:
            for projection in (layer.qkv, layer.output, layer.gate_up, layer.down):
                assert isinstance(projection, PackedProjection), "packed above"
                projection.coarsen()
    return weights
