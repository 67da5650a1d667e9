"""A CPU that does everything as late as it may: the rehearsal of a GPU.

Queued work runs only when somebody waits for it, in any order that the streams' marks
allow; host memory that a copy is still to read or write holds what it will hold on a
GPU at its worst. A runner that gives right answers here forgets no wait, and rewrites
nothing too early.
"""

import random
import threading
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from .device import Work
from .tape import TapeGraph


@dataclass(eq=False)
class LateMark:
    """A place that is reached when somebody waits."""

    device: "LateDevice"
    at_s: float = 0.0

    def wait(self) -> None:
        """Let the device come here."""
        self.device.reach(self)

    def seconds_after(self, earlier: "LateMark") -> float:
        """Between the moments in which they were reached.

        Raises:
            RuntimeError: One of them was not.
        """
        if not (self.at_s and earlier.at_s):
            raise RuntimeError("the device has not come there")
        return self.at_s - earlier.at_s


@dataclass(frozen=True)
class Follow:
    """A stream waits here for another's mark."""

    mark: LateMark


@dataclass(eq=False)
class LateStream:
    """Work that waits."""

    device: "LateDevice"
    queue: deque[Work | LateMark | Follow] = field(
        default_factory=deque[Work | LateMark | Follow]
    )

    def run(self, work: Work) -> None:
        """Queue it."""
        with self.device.lock:
            self.queue.append(work)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue it; the host's side is spoilt while it means nothing."""
        is_upload = self.device.is_pinned(source)
        if not is_upload:
            if not self.device.is_pinned(target):
                raise ValueError("neither side of the copy is pinned")
            spoil(target)

        def work() -> None:
            target.copy_(source)
            if is_upload:
                spoil(source)

        self.run(work)

    def mark(self) -> LateMark:
        """Set a mark."""
        with self.device.lock:
            mark = LateMark(self.device)
            self.queue.append(mark)
            return mark

    def follow(self, mark: LateMark) -> None:
        """Queue a wait."""
        with self.device.lock:
            self.queue.append(Follow(mark))

    @property
    def is_ready(self) -> bool:
        """Whether it can take a step."""
        if not self.queue:
            return False
        head = self.queue[0]
        return not isinstance(head, Follow) or head.mark.at_s > 0

    def step(self) -> None:
        """Do the first thing that is queued."""
        head = self.queue.popleft()
        if isinstance(head, LateMark):
            head.at_s = time.perf_counter()
        elif not isinstance(head, Follow):
            with torch.inference_mode():
                head()


class LateDevice:
    """Streams that run when they must.

    Args:
        seed: Of the order in which streams take turns.
        memory_bytes: What it pretends to have free.
    """

    torch_device = torch.device("cpu")

    def __init__(self, seed: int = 0, memory_bytes: int = 1 << 30) -> None:
        self.lock = threading.RLock()
        self.compute, self.readback = LateStream(self), LateStream(self)
        self._memory_bytes = memory_bytes
        self._random = random.Random(seed)
        # Kept: another tensor in their place would pass for pinned.
        self._pinned: dict[int, torch.Tensor] = {}

    def shuffle(self, seed: int) -> None:
        """Choose another order of turns."""
        self._random.seed(seed)

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Reserve host memory that is watched."""
        made = torch.zeros(shape, dtype=dtype)
        self._pinned[_home(made)] = made
        return made

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether ``pinned`` made it."""
        return _home(tensor) in self._pinned

    def capture(self, work: Work) -> TapeGraph:
        """Write the work's operators down."""
        self.settle()
        with torch.inference_mode():
            return TapeGraph.of(work)

    def settle(self) -> None:
        """Run all there is."""
        for stream in (self.compute, self.readback):
            self.reach(stream.mark())

    def reach(self, mark: LateMark) -> None:
        """Let streams take turns, by chance, until a mark is reached.

        Raises:
            RuntimeError: They wait for each other.
        """
        with self.lock:
            while not mark.at_s:
                ready = [s for s in (self.compute, self.readback) if s.is_ready]
                if not ready:
                    raise RuntimeError("the streams wait for each other")
                self._random.choice(ready).step()

    def peak_bytes(self, work: Work) -> int:
        """Do it now."""
        self.settle()
        self.compute.run(work)
        self.settle()
        return 0

    def free_bytes(self) -> int:
        """As it was told."""
        return self._memory_bytes

    def release(self) -> None:
        """Drop what is queued: whoever closes wants no more of it."""
        with self.lock:
            for stream in (self.compute, self.readback):
                stream.queue.clear()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Nobody looks."""
        return nullcontext()


def spoil(tensor: torch.Tensor) -> None:
    """Fill host memory with what nobody can mistake for something."""
    tensor.view(torch.uint8).fill_(0x7B)


def _home(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
