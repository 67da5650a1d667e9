"""How many pages a device can hold: the sum, and its words."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..protocol.errors import InvalidSetting
from .parallel.group import Group

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

    def shared(self, group: Group) -> "PoolSize":
        """Cut to the smallest of a group's: one plan is for all its ranks."""
        return replace(self, num_pages=group.least(self.num_pages))


def size_pool(
    *,
    kv_bytes: int,
    page_bytes: int,
    page_size: int,
    num_slots: int,
    max_context: int,
    weight_bytes: int,
    device: torch.device,
    share: float = 0.0,
    free: int | None = None,
    step_bytes: int = 0,
    sharers: int = 1,
) -> PoolSize:
    """Size the pool by a setting, or by what is free and what could ever be used.

    Args:
        kv_bytes: As set; 0 for none.
        page_bytes: Memory of a page.
        page_size: Tokens in it.
        num_slots: Sequences at once.
        max_context: Positions of each.
        weight_bytes: For the report.
        device: Where the pool goes.
        share: Of what is free, for pages; 0 chooses.
        free: Bytes free after the weights; None asks.
        step_bytes: Of those, what steps need beside the pages.
        sharers: Pools that are made of the same memory, this one included.

    Raises:
        InvalidSetting: Not one page fits; with the numbers.
    """
    free = (free_bytes(device) if free is None else free) // sharers
    useful = num_slots * -(-max_context // page_size)
    if kv_bytes:
        num_pages, why = kv_bytes // page_bytes, "as set"
        if kv_bytes > free - step_bytes:
            raise InvalidSetting(
                f"kv_bytes asks for {mib(kv_bytes)}, but {mib(free)} are free"
                f"{_beside(step_bytes)}; lower it, or leave it out"
            )
    else:
        room = max(int(free * (share or SHARE[device.type])) - step_bytes, 0)
        most = MOST_CPU_BYTES // sharers if device.type == "cpu" else room
        num_pages = min(useful, min(room, most) // page_bytes)
        why = "all slots full" if num_pages == useful else f"of {mib(free)} free"
    if num_pages < 1:
        raise InvalidSetting(
            f"a page of {page_size} tokens takes {page_bytes} bytes, and "
            f"{_no_room(kv_bytes, free, step_bytes)}"
        )
    report = (
        f"{device.type}: weights {mib(weight_bytes)}, pages "
        f"{mib(num_pages * page_bytes)} ({why}): {num_pages} pages of "
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


def _no_room(kv_bytes: int, free: int, step_bytes: int) -> str:
    if kv_bytes:
        return f"kv_bytes is {kv_bytes}; raise it"
    room = f"there is room for {free}{_beside(step_bytes)}"
    return f"{room}; free memory, or choose a smaller model"


def _beside(step_bytes: int) -> str:
    return f", of which steps need {step_bytes} bytes" if step_bytes else ""


def mib(num_bytes: int) -> str:
    """Say a number of bytes as people do."""
    return f"{num_bytes / MIB:,.1f} MiB"
