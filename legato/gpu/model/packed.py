"""Weights in small integers, and their products.

A weight is an offset and a scale, for 32 of them along a row, and a whole number from
0 to 120. A matrix that 16 levels hold exactly, as those of a Q4_1 checkpoint, takes 4
bits a weight; packing then adds no error at all.
"""

import ctypes
from dataclasses import replace

import torch

from ..checkpoint import Checkpoint
from ..native.library import Kernels, address
from ..native.structures import Int, Weights
from .weights import DecoderWeights, Progress, load_weights

GROUP = 32
TILE = 16


class PackedProjection:
    """A projection through packed weights, for float32 activations on a CPU.

    Activations are rounded to 8 bits, for 32 of them at a time.

    Args:
        packer: Whose kernels and threads it uses.
        weight: [out, in] float32.
        bias: [out] float32, or None.
    """

    def __init__(
        self,
        packer: "Packer",
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> None:
        kernels, (outs, ins) = packer.kernels, weight.shape
        weight = weight.contiguous()
        nibbles = kernels.fits_nibbles(address(weight), outs, ins)
        groups = -(-outs // TILE) * -(-ins // GROUP)
        self._packer = packer
        self._bias = bias
        self._q = aligned(groups * TILE * GROUP >> nibbles).view(torch.uint8)
        self._scale = aligned(groups * TILE * 4).view(torch.float32)
        self._low = aligned(groups * TILE * 4).view(torch.float32)
        self.num_bytes = self._q.numel() + 8 * self._scale.numel()
        self.weights = Weights(
            *(address(part) for part in (self._q, self._scale, self._low)),
            None if bias is None else address(bias),
            *(outs, ins, nibbles),
        )
        places = [address(part) for part in (self._q, self._scale, self._low)]
        kernels.pack(address(weight), ctypes.byref(self.weights), *places)

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


class Packer:
    """Packs matrices; their projections share its threads.

    Args:
        kernels: The library.
        num_threads: Of a projection.
    """

    def __init__(self, kernels: Kernels, num_threads: int) -> None:
        self.kernels = kernels
        self.pool = kernels.pool(self, num_threads)

    def __call__(
        self, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> PackedProjection:
        """Pack a weight of [out, in]."""
        return PackedProjection(self, weight, bias)


def aligned(num_bytes: int) -> torch.Tensor:
    """Zeroed bytes that begin at a multiple of 64, a line of the cache."""
    room = torch.zeros(num_bytes + 64, dtype=torch.uint8)
    start = -room.data_ptr() % 64
    return room[start : start + num_bytes]


def load_packed_weights(
    checkpoint: Checkpoint,
    kernels: Kernels,
    *,
    num_threads: int,
    progress: Progress | None = None,
) -> DecoderWeights:
    """Read a checkpoint into packed projections; the embedding becomes float16.

    Args:
        checkpoint: Open.
        kernels: To pack and to multiply with.
        num_threads: Of a projection that is used by itself.
        progress: As ``load_weights`` has it.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    weights = load_weights(
        checkpoint,
        torch.float32,
        torch.device("cpu"),
        pack=Packer(kernels, num_threads),
        progress=progress,
    )
    half = weights.embedding.half()
    saved = weights.embedding.nbytes - half.nbytes
    return replace(weights, embedding=half, num_bytes=weights.num_bytes - saved)
