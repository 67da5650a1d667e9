"""How many pages a device can hold: the sum, and its words."""

from dataclasses import dataclass
from pathlib import Path

import torch

from ..protocol.errors import InvalidSetting

MIB = 1 << 20
# Of what is free after the weights, the pages may take so much; the rest is for
# activations, the front end and other programs.
SHARE = {"cpu": 0.5, "cuda": 0.9}
# A CPU's pages take memory only when they are used, yet a pool far beyond need would
# let idle prefixes fill it.
MOST_CPU_BYTES = 4 << 30


@dataclass(frozen=True)
class PoolSize:
    """A pool and why it is as large.

    Args:
        num_pages: Its pages.
        report: One line.
    """

    num_pages: int
    report: str


def size_pool(
    *,
    kv_bytes: int,
    page_bytes: int,
    page_size: int,
    num_slots: int,
    max_context: int,
    weight_bytes: int,
    device: torch.device,
) -> PoolSize:
    """Size the pool by a setting, or by what is free and what could ever be used.

    Raises:
        InvalidSetting: Not one page fits; with the numbers.
    """
    free = free_bytes(device)
    useful = num_slots * -(-max_context // page_size)
    if kv_bytes:
        num_pages, why = kv_bytes // page_bytes, "as set"
        if kv_bytes > free:
            raise InvalidSetting(
                f"kv_bytes asks for {_mib(kv_bytes)}, but {_mib(free)} are free; "
                "lower it, or leave it out"
            )
    else:
        room = int(free * SHARE[device.type])
        if device.type == "cpu":
            room = min(room, MOST_CPU_BYTES)
        num_pages = min(useful, room // page_bytes)
        why = "all slots full" if num_pages == useful else f"of {_mib(free)} free"
    if num_pages < 1:
        raise InvalidSetting(
            f"a page of {page_size} tokens takes {page_bytes} bytes, and there is room "
            f"for {kv_bytes or free}; free memory, or choose a smaller model"
        )
    report = (
        f"{device.type}: weights {_mib(weight_bytes)}, pages "
        f"{_mib(num_pages * page_bytes)} ({why}): {num_pages} pages of "
        f"{page_size} tokens each, room for {num_pages * page_size} tokens"
    )
    return PoolSize(num_pages, report)


def free_bytes(device: torch.device) -> int:
    """Memory that can still be had, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_system_free(), _container_free())


def _system_free() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return MOST_CPU_BYTES
    sizes = dict(line.split(":") for line in lines if ":" in line)
    return int(sizes["MemAvailable"].split()[0]) * 1024


def _container_free() -> int:
    """What a container's limit leaves; without one, no bound."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return 1 << 62
    return 1 << 62 if limit == "max" else max(int(limit) - used, 0)


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / MIB:,.1f} MiB"
