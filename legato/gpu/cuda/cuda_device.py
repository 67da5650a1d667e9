"""CUDA behind the seam: streams, events, pinned memory, graphs.

The one file of this folder that cannot run without a GPU; so it decides nothing.
"""

from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from .device import Work


class CudaMark:
    """An event that was recorded.

    Args:
        event: With timing; its ``synchronize`` blocks instead of polling.
    """

    def __init__(self, event: torch.cuda.Event) -> None:
        self.event = event

    def wait(self) -> None:
        """Block without the interpreter lock until the device has come here."""
        self.event.synchronize()

    def seconds_after(self, earlier: "CudaMark") -> float:
        """By the device's clock, to half a microsecond."""
        return earlier.event.elapsed_time(self.event) / 1000


class CudaStream:
    """A stream of one device.

    Args:
        device: With its index.
        priority: Lower runs first.
    """

    def __init__(self, device: torch.device, priority: int = 0) -> None:
        self.stream = torch.cuda.Stream(device, priority=priority)

    def run(self, work: Work) -> None:
        """Queue the work's kernels."""
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            work()

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Queue a copy; asynchronous because the host's side is pinned."""
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            target.copy_(source, non_blocking=True)

    def mark(self) -> CudaMark:
        """Record a new event: one that is never recorded again cannot mislead."""
        event = torch.cuda.Event(enable_timing=True, blocking=True)
        event.record(self.stream)
        return CudaMark(event)

    def follow(self, mark: CudaMark) -> None:
        """Wait on the device, not on the host."""
        self.stream.wait_event(mark.event)


class CudaGraph:
    """Captured work.

    Args:
        graph: Torch's; it knows addresses alone.
        work: What was captured. It is kept, and with it the memory that it refers to:
            a replay would read whatever came to lie there.
    """

    def __init__(self, graph: torch.cuda.CUDAGraph, work: Work) -> None:
        self.replay = graph.replay
        self._work = work


class CudaDevice:
    """A GPU.

    Args:
        device: Which.
    """

    def __init__(self, device: torch.device) -> None:
        # Torch's types say that every device has an index; "cuda" alone has none.
        index = cast(int | None, device.index)
        index = torch.cuda.current_device() if index is None else index
        self.torch_device = torch.device("cuda", index)
        # The threads that launch and wait must mean this device by default.
        torch.cuda.set_device(self.torch_device)
        self.compute = CudaStream(self.torch_device)
        # Tiny copies that the host waits for: ahead of the next step's kernels.
        self.readback = CudaStream(self.torch_device, priority=-1)
        self._pool = torch.cuda.graph_pool_handle()

    def pinned(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Reserve page-locked memory."""
        return torch.zeros(shape, dtype=dtype, pin_memory=True)

    def capture(self, work: Work) -> CudaGraph:
        """Capture into the shared pool.

        Not by ``torch.cuda.graph``: it collects garbage and empties the allocator's
        cache each time, which over a hundred graphs are most of a start.
        """
        self.settle()
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.stream(self.compute.stream):
            # Thread-local: other threads may wait for events meanwhile.
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                work()
            except BaseException:
                self._abandon(graph)
                raise
            graph.capture_end()
        return CudaGraph(graph, work)

    def settle(self) -> None:
        """Synchronise the whole device."""
        torch.cuda.synchronize(self.torch_device)

    def peak_bytes(self, work: Work) -> int:
        """By the allocator's count of what was in use at once."""
        self.settle()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.torch_device)
        before = torch.cuda.memory_allocated(self.torch_device)
        self.compute.run(work)
        self.settle()
        peak = torch.cuda.max_memory_allocated(self.torch_device) - before
        torch.cuda.empty_cache()
        return peak

    def free_bytes(self) -> int:
        """What the driver has once the allocator returned what it does not use."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.torch_device)[0]

    def release(self) -> None:
        """Empty the allocator's cache, once no kernel uses it."""
        self.settle()
        torch.cuda.empty_cache()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A range for whichever profiler looks: torch's own, or NVTX."""
        autograd: Any = torch.autograd  # neither this nor NVTX has types
        if autograd._profiler_enabled():
            named: Any = torch.profiler.record_function
            return named(name)
        nvtx: Any = torch.cuda.nvtx
        return nvtx.range(name)

    @staticmethod
    def _abandon(graph: torch.cuda.CUDAGraph) -> None:
        """End a capture that failed, so that the stream can be used again."""
        try:
            graph.capture_end()
        except RuntimeError:
            # It says that the capture failed, which the caller is about to hear.
            pass
