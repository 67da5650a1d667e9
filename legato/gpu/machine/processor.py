"""The processor and the memory: read from the system, nothing is run."""

import os
import platform
from pathlib import Path

from .finding import Finding

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
# What people call it: what the kernel does.
INSTRUCTION_SETS = {
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "BF16": ("avx512_bf16",),
    "AMX": ("amx_tile",),
    "NEON": ("asimd",),
    "DOTPROD": ("asimddp",),
    "SVE": ("sve",),
    "I8MM": ("i8mm",),
}
X86 = ("AVX2", "AVX-512", "VNNI", "BF16", "AMX")
ARM = ("NEON", "DOTPROD", "SVE", "I8MM")
# Of all of them, which have no file that tells.
APPLE = {"asimd", "asimddp"}


def find_processor(cpuinfo: Path = CPUINFO) -> Finding:
    """Look at the processor's name, cores and instruction sets."""
    fields: dict[str, str] = {}
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    machine = platform.machine().lower()
    is_arm = machine in ("aarch64", "arm64")
    if is_arm and platform.system() == "Darwin":
        flags |= APPLE
    has = {
        name: any(flag in flags for flag in known)
        for name, known in INSTRUCTION_SETS.items()
    }
    model = fields.get("model name") or platform.processor() or platform.machine()
    cores, usable = os.cpu_count() or 1, usable_cores()
    wanted = ARM if is_arm else X86
    there = [name for name in wanted if has[name]]
    absent = [name for name in wanted if not has[name]]
    parts = [f"{model}, {usable} of {cores} cores usable", ", ".join(there)]
    if not flags:
        parts.append("instruction sets unknown")
    elif absent:
        parts.append(f"no {', '.join(absent)}")
    return Finding(
        name="processor",
        state="ok",
        text="; ".join(part for part in parts if part),
        facts={
            "model": model,
            "machine": machine,
            "cores": cores,
            "usable_cores": usable,
            "instruction_sets": [name for name, there in has.items() if there],
        },
    )


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_memory(meminfo: Path = MEMINFO) -> Finding:
    """Look at how much memory there is, and how much is free."""
    if not meminfo.exists():
        return Finding(name="memory", state="missing", text=f"{meminfo} is not there")
    lines = meminfo.read_text().splitlines()
    sizes = {key: value.split() for key, _, value in (x.partition(":") for x in lines)}
    total, free = (int(sizes[k][0]) * 1024 for k in ("MemTotal", "MemAvailable"))
    return Finding(
        name="memory",
        state="ok",
        text=f"{free / 2**30:.1f} GiB free of {total / 2**30:.1f}",
        facts={"total_bytes": total, "free_bytes": free},
    )
