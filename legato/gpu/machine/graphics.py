"""NVIDIA's driver and cards, as the driver's own tool tells them."""

import re
import shutil

from .finding import Finding
from .inquiry import ask

FIELDS = ("index", "name", "driver_version", "memory.total", "compute_cap")
TIMEOUT_S = 20.0


def find_graphics() -> Finding:
    """Ask ``nvidia-smi`` for cards and driver.

    Raises:
        NoAnswer: It fails or hangs.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding(
            name="gpu", state="missing", text="no NVIDIA driver (no nvidia-smi)"
        )
    query = [tool, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    cards = [parse_card(line) for line in ask(query, TIMEOUT_S).splitlines() if line]
    if not cards:
        return Finding(name="gpu", state="missing", text="the driver sees no card")
    found = re.search(r"CUDA Version:\s*([\d.]+)", ask([tool], TIMEOUT_S))
    cuda = found.group(1) if found else ""
    driver = cards[0]["driver_version"]
    names = ", ".join(f"{card['name']} ({card['memory_mib']} MiB)" for card in cards)
    upto = f", CUDA up to {cuda}" if cuda else ""
    return Finding(
        name="gpu",
        state="ok",
        text=f"{names}; driver {driver}{upto}",
        facts={"cards": cards, "driver": driver, "cuda": cuda},
    )


def parse_card(line: str) -> dict[str, str]:
    """Read one line of the tool's table."""
    values = [value.strip() for value in line.split(",")]
    card = dict(zip(FIELDS, values, strict=False))
    return {
        "name": card.get("name", "?"),
        "driver_version": card.get("driver_version", "?"),
        "memory_mib": card.get("memory.total", "?"),
        "capability": card.get("compute_cap", "?"),
    }
