"""Which attention backend runs, by name or by what is there; and why."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...protocol.errors import InvalidSetting
from . import flash, gather, varlen
from .backend import AttentionBackend
from .cache import KvCache
from .geometry import Geometry
from .native import native_or
from .offer import Builder, Offer
from .paged import PagedAttention
from .reference import ReferenceAttention
from .trial import find_fault

log = logging.getLogger(__name__)
Look = Callable[[torch.device], tuple[Offer, ...] | str]


def on_cpu(what: str, build: Builder, *, reads_fp8: bool = False) -> Look:
    """Offer a backend on CPUs."""
    found = (Offer(what, build, reads_fp8=reads_fp8),)

    def look(device: torch.device) -> tuple[Offer, ...]:
        return found if device.type == "cpu" else ()

    return look


def reference(device: torch.device) -> tuple[Offer, ...]:
    """Offer the oracle, anywhere."""
    what = "plain float32 attention, slow"
    return (Offer(what, ReferenceAttention, rank=-1, reads_fp8=True),)


# Each says what it offers on a device, or why nothing; nothing at all if the device is
# not of its kind. Among equals the first.
ATTENTION_BACKENDS: dict[str, Look] = {
    "paged": on_cpu("torch, page by page", PagedAttention, reads_fp8=True),
    # After paged: who did not ask for kernels need not wait for a compiler.
    "native": on_cpu("compiled kernels", native_or(PagedAttention)),
    "flash": flash.look,
    "varlen": varlen.look,
    "gather": gather.look,
    "reference": reference,
}


@dataclass(frozen=True)
class Availability:
    """Whether a backend would run.

    Args:
        name: Of the backend.
        runs: Whether.
        reason: What would compute, or why it would not run and what to do about it.
        page_size: Tokens in a page that it would be given, 0 if it does not run.
        offer: What builds it, if it runs.
    """

    name: str
    runs: bool
    reason: str
    page_size: int = 0
    offer: Offer | None = None

    def build(self, cache: KvCache, geometry: Geometry) -> AttentionBackend:
        """Build the backend over a cache."""
        assert self.offer is not None, "only what runs is built"
        return self.offer.build(cache, geometry.num_heads, geometry.windows)


def available(
    device: torch.device, geometry: Geometry | None = None, page_size: int = 0
) -> tuple[Availability, ...]:
    """Say of each backend for such a device whether it would run.

    Those that do come first, the fastest first. A backend comes as often as there are
    packages that it could run on.

    Args:
        device: Where.
        geometry: Of a model; None asks about the device alone.
        page_size: Tokens in a page, or 0 if it may be chosen.
    """
    found: list[Availability] = []
    for name, look in ATTENTION_BACKENDS.items():
        offers = look(device)
        if isinstance(offers, str):
            found.append(Availability(name, False, offers))
            continue
        found += [judge(name, offer, geometry, page_size) for offer in offers]
    return tuple(sorted(found, key=lambda one: (not one.runs, -_rank(one))))


def judge(
    name: str, offer: Offer, geometry: Geometry | None, page_size: int
) -> Availability:
    """Hold what a backend offers against what is asked."""
    refusal = offer.refusal(geometry, page_size)
    if refusal:
        return Availability(name, False, f"{offer.what}: not for {refusal}")
    return Availability(name, True, offer.what, page_size or offer.page_size, offer)


def choose_attention(
    name: str, geometry: Geometry, device: torch.device, page_size: int = 0
) -> Availability:
    """Choose a backend for a model; kernels of others are tried first.

    Args:
        name: Of a backend, or ``auto`` for the fastest that runs.
        geometry: Of the model.
        device: Where.
        page_size: Tokens in a page, or 0 for what suits the backend.

    Raises:
        InvalidSetting: No backend has the name, or it does not run here; and why.
    """
    found = available(device, geometry, page_size)
    why: list[str] = []
    for one in found:
        if name not in ("auto", one.name):
            continue
        tried = attempt(one, geometry, device)
        if tried.runs:
            return tried
        why.append(tried.reason)
        if one.runs:
            log.warning("no attention %s: %s", one.name, tried.reason)
    fit = dict.fromkeys(one.name for one in found if one.runs and one.name != name)
    reasons = f" ({'; '.join(why)})" if why else ""
    raise InvalidSetting(
        f"attention {name!r} does not run on {device.type}{reasons}; choose auto or "
        f"{' or '.join(fit)}"
    )


def attempt(
    found: Availability, geometry: Geometry, device: torch.device
) -> Availability:
    """Try a backend that would run, if it must be."""
    offer = found.offer
    if offer is None or not offer.is_tried:
        return found
    fault = find_fault(offer, geometry, device, found.page_size)
    if not fault:
        return found
    return Availability(found.name, False, f"{offer.what} failed its trial: {fault}")


def _rank(one: Availability) -> int:
    return one.offer.rank if one.offer else 0
