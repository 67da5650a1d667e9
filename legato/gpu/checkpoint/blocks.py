"""Numbers in blocks, as GGUF files hold them.

The three kinds that the embedded model is made of become floats here; the ``gguf``
package knows the others, and its import alone takes 0.5 s.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class GgufType(IntEnum):
    """GGML's numbers of the types that are supported."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30

    @property
    def block(self) -> tuple[int, int]:
        """How many numbers a block holds, and its bytes."""
        return _BLOCKS[self]


_BLOCKS = {
    GgufType.F32: (1, 4),
    GgufType.F16: (1, 2),
    GgufType.BF16: (1, 2),
    GgufType.Q4_0: (32, 18),
    GgufType.Q4_1: (32, 20),
    GgufType.Q5_0: (32, 22),
    GgufType.Q5_1: (32, 24),
    GgufType.Q8_0: (32, 34),
    GgufType.Q2_K: (256, 84),
    GgufType.Q3_K: (256, 110),
    GgufType.Q4_K: (256, 144),
    GgufType.Q5_K: (256, 176),
    GgufType.Q6_K: (256, 210),
}

# A kind's parts: halves before the numbers, bytes of them.
SIMPLE = frozenset({GgufType.Q4_0, GgufType.Q4_1, GgufType.Q8_0})
# The package works on 16 rows at a time, whatever their width. Blocks don't know of
# rows, so wide rows are made of them: 3x faster than a model's own narrow ones.
BLOCKS_AT_ONCE = 256


class Blocks(NamedTuple):
    """A matrix in blocks of 32.

    Args:
        kind: One of ``SIMPLE``.
        rows: [out, bytes of a row].
    """

    kind: GgufType
    rows: npt.NDArray[np.uint8]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix: out, in."""
        size, num_bytes = self.kind.block
        return len(self.rows), self.rows.shape[1] // num_bytes * size

    def floats(self) -> npt.NDArray[np.float32]:
        """Compute its numbers: [out, in]."""
        _, num_bytes = self.kind.block
        blocks = np.ascontiguousarray(self.rows).reshape(-1, num_bytes)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        if self.kind is GgufType.Q8_0:
            values = blocks[:, 2:].view(np.int8).astype(np.float32)
            return np.multiply(values, scale, out=values).reshape(self.shape)
        packed = blocks[:, num_bytes - 16 :]
        values = np.empty((len(blocks), 32), np.float32)
        values[:, :16], values[:, 16:] = packed & 15, packed >> 4
        if self.kind is GgufType.Q4_0:
            values -= 8
        values *= scale
        if self.kind is GgufType.Q4_1:
            values += blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
        return values.reshape(self.shape)


def dequantize(stored: memoryview, kind: GgufType) -> npt.NDArray[np.float32]:
    """Compute the numbers of blocks of any kind, flat."""
    blocks = np.frombuffer(stored, np.uint8).reshape(-1, kind.block[1])
    if kind in SIMPLE:
        return Blocks(kind, blocks).floats().ravel()
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize as compute

    package_kind = GGMLQuantizationType(int(kind))
    wide = len(blocks) // BLOCKS_AT_ONCE * BLOCKS_AT_ONCE
    parts = [blocks[:wide].reshape(-1, BLOCKS_AT_ONCE * blocks.shape[1]), blocks[wide:]]
    values: list[Any] = [compute(p, package_kind).ravel() for p in parts if len(p)]
    return np.concatenate(values) if len(values) > 1 else values[0]
