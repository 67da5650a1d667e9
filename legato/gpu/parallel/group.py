"""What ranks say to each other in the middle of a step."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch

from ...protocol.errors import InvalidSetting
from ..readback import integers

# Of one exchange: a rank that does not come is dead or hangs.
TIMEOUT = timedelta(minutes=5)
LOCALHOST = "127.0.0.1"


class Group(Protocol):
    """The ranks of one model. Each calls the same methods in the same order."""

    @property
    def rank(self) -> int:
        """Which this is; 0 leads: it alone samples."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    @property
    def device(self) -> torch.device:
        """Of this rank."""
        ...

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """Add up over all ranks, in place; all get the same bits.

        Raises:
            RuntimeError: A rank is gone.
        """
        ...

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """Put all ranks' [rows, width] side by side: [rows, size * width].

        Raises:
            RuntimeError: A rank is gone.
        """
        ...

    def share(self, x: torch.Tensor) -> torch.Tensor:
        """Overwrite with rank 0's, in place.

        Raises:
            RuntimeError: A rank is gone.
        """
        ...

    def least(self, number: int) -> int:
        """The least of all ranks' numbers; waits for the device.

        Raises:
            RuntimeError: A rank is gone.
        """
        ...

    def abort(self) -> None:
        """Give up on exchanges under way. For any thread; may be called again."""
        ...

    def close(self) -> None:
        """Leave the group. May be called again."""
        ...


class TorchGroup:
    """Ranks over NCCL on CUDA, over gloo on a CPU.

    Belongs to one runner: unlike ``init_process_group`` it touches nothing of the
    process's, so that an engine and its user's own groups do not know of each other.

    Args:
        store: Where ranks find each other: the same for all, and private to them.
        rank: Which this is.
        size: How many there are.
        device: Of this rank.
    """

    def __init__(self, store: Any, rank: int, size: int, device: torch.device) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        make = _nccl if device.type == "cuda" else _gloo
        self._backend: Any = make(store, rank, size)

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """Add up over all ranks, in place."""
        self._backend.allreduce([x]).wait()
        return x

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """Put all ranks' parts side by side."""
        rows, width = x.shape
        parts = x.new_empty(self.size * rows, width)
        self._backend._allgather_base(parts, x.contiguous()).wait()
        beside = parts.view(self.size, rows, width).transpose(0, 1)
        return beside.reshape(rows, self.size * width)

    def share(self, x: torch.Tensor) -> torch.Tensor:
        """Overwrite with rank 0's, in place."""
        from torch.distributed import BroadcastOptions

        options = BroadcastOptions()
        options.rootRank = 0
        self._backend.broadcast([x], options).wait()
        return x

    def least(self, number: int) -> int:
        """The least of all ranks' numbers."""
        from torch.distributed import AllreduceOptions, ReduceOp

        options: Any = AllreduceOptions()
        options.reduceOp = ReduceOp.MIN
        held = torch.tensor([number], device=self.device)
        self._backend.allreduce([held], options).wait()
        return integers(held)[0]

    def abort(self) -> None:
        """Give up on exchanges under way: NCCL's would never end."""
        backend = self._backend
        if backend is not None and self.device.type == "cuda":
            backend.abort()

    def close(self) -> None:
        """Leave the group."""
        self.abort()
        self._backend = None


def open_group(folder: Path, rank: int, size: int, device: torch.device) -> Group:
    """Meet the other ranks in a folder that only they know of; waits for them.

    Raises:
        InvalidSetting: This torch cannot.
        RuntimeError: They do not come.
    """
    from torch import distributed

    if not distributed.is_available():
        raise InvalidSetting(
            "this torch has no torch.distributed: use tensor_parallel 1"
        )
    make_store: Any = distributed.FileStore  # pyright: ignore[reportPrivateImportUsage]
    store = make_store(str(folder / "ranks"), size)
    store.set_timeout(TIMEOUT)
    return TorchGroup(store, rank, size, device)


def _gloo(store: Any, rank: int, size: int) -> Any:
    from torch.distributed import ProcessGroupGloo

    gloo: Any = ProcessGroupGloo
    options = gloo._Options()
    # Not the interface of the host's name, which others can reach and which a
    # container may not have.
    options._devices = [gloo.create_device(hostname=LOCALHOST)]
    options._timeout = TIMEOUT
    return gloo(store, rank, size, options)


def _nccl(store: Any, rank: int, size: int) -> Any:
    from torch import distributed

    if not distributed.is_nccl_available():
        raise InvalidSetting("this torch has no NCCL: use tensor_parallel 1")
    nccl: Any = distributed.ProcessGroupNCCL
    options = nccl.Options()
    options._timeout = TIMEOUT
    return nccl(store, rank, size, options)
