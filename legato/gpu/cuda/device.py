"""The seam to a device that works while the host goes on.

Everything that only CUDA has stands behind these four: a runner written against them
runs alike on a GPU, on a CPU that does everything at once, and on one that does
everything as late as it may.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

Work = Callable[[], None]


class Mark(Protocol):
    """A place in a stream's work; it is reached once and stays so."""

    def wait(self) -> None:
        """Block, without polling, until the stream has come here.

        Raises:
            Exception: Whatever the device failed with before.
        """
        ...

    def seconds_after(self, earlier: Any) -> float:
        """Device time between two marks of one device; both must be reached."""
        ...


class Stream(Protocol):
    """Work in order. Nothing here blocks the host."""

    def run(self, work: Work) -> None:
        """Queue what a callable does to the device's tensors."""
        ...

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy between the host and the device.

        The host's side must be a ``pinned`` tensor, and must be left alone until a
        mark behind the copy is reached.
        """
        ...

    def mark(self) -> Mark:
        """Set a mark behind what is queued."""
        ...

    def follow(self, mark: Any) -> None:
        """Let what is queued from now on wait for another stream's mark."""
        ...


class Graph(Protocol):
    """Captured work on tensors that stay where they are."""

    def replay(self) -> None:
        """Do it again, with what the tensors hold now; from within ``Stream.run``."""
        ...


class Device(Protocol):
    """A device, its two streams and its memory."""

    @property
    def torch_device(self) -> torch.device:
        """Where its tensors live."""
        ...

    @property
    def compute(self) -> Stream:
        """The stream that steps run in."""
        ...

    @property
    def readback(self) -> Stream:
        """The stream that results come back in."""
        ...

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Reserve host memory that copies may use while the host goes on."""
        ...

    def capture(self, work: Work) -> Graph:
        """Capture work for replays; it has run before, and its tensors stay.

        The graph keeps the callable, and what that refers to. What it allocates is
        shared with every other graph: only what it writes into tensors from outside
        outlives it.

        Raises:
            torch.OutOfMemoryError: There is no room for it.
        """
        ...

    def settle(self) -> None:
        """Block until nothing is queued any more."""
        ...

    def peak_bytes(self, work: Work) -> int:
        """Do work now and say how much memory it took at its peak."""
        ...

    def free_bytes(self) -> int:
        """Memory that can still be had."""
        ...

    def release(self) -> None:
        """Wait for what is queued, then give back what nothing refers to any more.

        Raises:
            Exception: Whatever the device failed with.
        """
        ...

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Name what the host does, for a profiler."""
        ...
