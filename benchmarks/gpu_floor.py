"""What a device can do at best, measured on it: copies and matrix products."""

import time
from collections.abc import Callable

import torch


def fastest_s(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """The least time of some work, after a warm-up."""
    times: list[float] = []
    for _ in range(repeats + 1):
        settle(device)
        begun_s = time.perf_counter()
        work()
        settle(device)
        times.append(time.perf_counter() - begun_s)
    return min(times[1:])


def settle(device: torch.device) -> None:
    """Wait until the device has nothing to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def copy_bytes_s(device: torch.device, num_bytes: int) -> float:
    """Bytes read and written a second by a large copy."""
    source = torch.ones(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / fastest_s(device, lambda: target.copy_(source), 10)


def product_flops_s(device: torch.device, width: int, dtype: torch.dtype) -> float:
    """Operations a second of a square matrix product."""
    a = torch.randn(width, width, device=device).to(dtype)
    b = torch.randn(width, width, device=device).to(dtype)
    return 2 * width**3 / fastest_s(device, lambda: a @ b, 10)
