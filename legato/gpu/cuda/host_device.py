"""A CPU as a device: everything is done at once, in the calling thread."""

import time
from contextlib import AbstractContextManager, nullcontext

import torch

from ..memory import free_bytes
from .device import Work


class HostMark:
    """A place already passed."""

    def __init__(self) -> None:
        self._at_s = time.perf_counter()

    def wait(self) -> None:
        """Return at once."""

    def seconds_after(self, earlier: "HostMark") -> float:
        """By the host's clock."""
        return self._at_s - earlier._at_s


class HostStream:
    """Runs work as it comes."""

    def run(self, work: Work) -> None:
        """Do it now."""
        with torch.inference_mode():
            work()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy now."""
        with torch.inference_mode():
            target.copy_(source)

    def mark(self) -> HostMark:
        """Note the time."""
        return HostMark()

    def follow(self, mark: HostMark) -> None:
        """Nothing to wait for."""


class HostGraph:
    """Work that is simply done again, over the same tensors.

    Args:
        replay: The work.
    """

    def __init__(self, replay: Work) -> None:
        self.replay = replay


class HostDevice:
    """A CPU."""

    torch_device = torch.device("cpu")

    def __init__(self) -> None:
        self.compute = self.readback = HostStream()

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Reserve ordinary memory."""
        return torch.zeros(shape, dtype=dtype)

    def capture(self, work: Work) -> HostGraph:
        """Keep the callable."""
        self.compute.run(work)
        return HostGraph(work)

    def settle(self) -> None:
        """Nothing is ever queued."""

    def peak_bytes(self, work: Work) -> int:
        """Do it; torch does not count a CPU's memory, so it is 0."""
        self.compute.run(work)
        return 0

    def free_bytes(self) -> int:
        """Of the machine or its container."""
        return free_bytes(self.torch_device)

    def release(self) -> None:
        """Torch keeps nothing of a CPU's memory."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Nobody looks."""
        return nullcontext()
