"""What a step's kernels read beside queries, keys and values: small integers.

They lie in one buffer, so that one copy brings them to a device.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

Ints = npt.NDArray[np.int64]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class StepTensors:
    """A step's rows, as kernels take them.

    Args:
        buffer: int64: the memory of all the others.
        positions: [tokens] int64.
        cells: [tokens] int64: where each token's keys and values go.
        cu_q: [rows + 1] int32: row r has the tokens from ``cu_q[r]`` to
            ``cu_q[r + 1]``.
        cu_k: [rows + 1] int32: sums of ``lengths``, from 0.
        lengths: [rows] int32: positions of each row after the step.
        tables: [rows, pages] int32, contiguous: block tables; they come last.
    """

    buffer: torch.Tensor
    positions: torch.Tensor
    cells: torch.Tensor
    cu_q: torch.Tensor
    cu_k: torch.Tensor
    lengths: torch.Tensor
    tables: torch.Tensor

    @classmethod
    def over(
        cls, buffer: torch.Tensor, tokens: int, rows: int, pages: int
    ) -> "StepTensors":
        """View a buffer of as many int64 as ``reserve`` takes."""
        small = buffer[2 * tokens : head_words(tokens, rows)].view(torch.int32)
        tables = buffer[head_words(tokens, rows) :].view(torch.int32)
        return cls(
            buffer=buffer,
            positions=buffer[:tokens],
            cells=buffer[tokens : 2 * tokens],
            cu_q=small[: rows + 1],
            cu_k=small[rows + 1 : 2 * rows + 2],
            lengths=small[2 * rows + 2 : 3 * rows + 2],
            tables=tables[: rows * pages].view(rows, pages),
        )

    @classmethod
    def reserve(
        cls, tokens: int, rows: int, pages: int, device: torch.device
    ) -> "StepTensors":
        """Reserve zeros; on the host of a CUDA device in use they are pinned."""
        words = head_words(tokens, rows) + (rows * pages + 1) // 2
        pinned = device.type == "cpu" and torch.cuda.is_initialized()
        buffer = torch.zeros(words, dtype=torch.int64, device=device, pin_memory=pinned)
        return cls.over(buffer, tokens, rows, pages)

    @classmethod
    def on_host(
        cls, *, positions: Ints, cells: Ints, counts: Ints, lengths: Ints, tables: Ints
    ) -> "StepTensors":
        """Lay a step's numbers out in fresh memory.

        Pinned memory goes back to torch's cache, which reuses it only once the copies
        that read it are done: it may be dropped while they run.
        """
        rows, pages = tables.shape
        host = cls.reserve(len(positions), rows, pages, CPU)
        host.positions.numpy()[:] = positions
        host.cells.numpy()[:] = cells
        np.cumsum(counts, out=host.cu_q.numpy()[1:])
        np.cumsum(lengths, out=host.cu_k.numpy()[1:])
        host.lengths.numpy()[:] = lengths
        host.tables.numpy()[:] = tables
        return host

    def to(self, device: torch.device) -> "StepTensors":
        """Copy to a device; nobody waits for it."""
        placed = self.buffer.to(device, non_blocking=True)
        rows, pages = self.tables.shape
        return StepTensors.over(placed, len(self.positions), rows, pages)

    def replace(self, host: "StepTensors") -> None:
        """Copy another step of as many rows and tokens over this one, in place.

        Its tables may be narrower: a context has many pages, most rows have few.
        """
        head = head_words(len(self.positions), len(self.lengths))
        self.buffer[:head].copy_(host.buffer[:head], non_blocking=True)
        width = host.tables.shape[1]
        self.tables[:, :width].copy_(host.tables, non_blocking=True)


def head_words(tokens: int, rows: int) -> int:
    """Int64 words of all but the tables."""
    return 2 * tokens + (3 * rows + 3) // 2
