"""What would run on each device, made of what was found."""

from collections.abc import Mapping
from typing import Any

from .finding import Finding, Outlook

# Instruction sets that kernels were written for.
FAST = {"AVX2", "DOTPROD"}


def look_ahead(found: Mapping[str, Finding]) -> tuple[Outlook, ...]:
    """Say what ``auto`` comes to on each device; the first is the one it takes."""
    torch = found["torch"]
    if torch.state != "ok":
        return ()
    outlooks: list[Outlook] = []
    devices: dict[str, dict[str, Any]] = torch.facts["devices"]
    if "cuda" in devices:
        outlooks.append(_on_cuda(devices["cuda"], torch.facts["gpus"]))
    if "cpu" in devices:
        outlooks.append(_on_cpu(devices["cpu"], found))
    return tuple(outlooks)


def _on_cuda(device: dict[str, Any], gpus: list[dict[str, Any]]) -> Outlook:
    chosen, why = _attention(device)
    return Outlook(
        device="cuda",
        name=gpus[0]["name"],
        dtype=device["dtype"],
        attention=chosen,
        native=False,
        why=why,
    )


def _on_cpu(device: dict[str, Any], found: Mapping[str, Finding]) -> Outlook:
    name = found["processor"].facts.get("model", "a CPU")
    kernels = found["kernels"]
    reason = _no_kernels(kernels, found["processor"])
    if not reason:
        return Outlook(
            device="cpu",
            name=name,
            dtype="int8",
            attention="native",
            native=True,
            why=(f"native kernels: {kernels.text}",),
        )
    chosen, why = _attention(device)
    return Outlook(
        device="cpu",
        name=name,
        dtype=device["dtype"],
        attention=chosen,
        native=False,
        why=(f"no native kernels: {reason}", *why),
    )


def _no_kernels(kernels: Finding, processor: Finding) -> str:
    """Why ``auto`` would go without native kernels, or ""."""
    if kernels.state != "ok":
        return kernels.text
    if kernels.facts["compiled"]:
        return "" if kernels.facts["vectorised"] else kernels.text
    sets = processor.facts.get("instruction_sets", [])
    if FAST.intersection(sets):
        return ""
    return f"they need {' or '.join(sorted(FAST))} to be faster than torch"


def _attention(device: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The first backend that is available, and why those before it are not."""
    why: list[str] = []
    for backend in device["attention"]:
        if backend["available"]:
            return backend["name"], tuple(why)
        why.append(f"no attention {backend['name']}: {backend['why']}")
    return "none", tuple(why)
