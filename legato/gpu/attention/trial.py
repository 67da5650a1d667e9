"""Whether a kernel computes on this device what float32 attention does.

Kernels come from other packages, in versions that nobody has tried together; so one is
tried with a model's shape, on a few rows, before it answers anybody.
"""

import numpy as np
import torch

from .backend import AttentionBackend, CapturableAttention
from .batch import AttentionBatch
from .cache import FP8, KvCache
from .geometry import Geometry
from .offer import Offer
from .reference import ReferenceAttention
from .static import StaticStep

# Of the length of what comes out. Rounding to bfloat16 is off by 0.004, a wrong mask or
# page by far more.
TOLERANCE = 0.02
# Where queries and weights have 3 bits of mantissa.
FP8_TOLERANCE = 0.1
PAGES = 3
# A model's window would reach beyond what is tried, and in a wide one a position too
# many would not show.
NARROW = 5
# Positions before the step and tokens in it, in pages and tokens over: alone, over an
# edge, a chunk with a past, one without.
ROWS = ((0, 0, 1), (2, -1, 1), (1, 3, 9), (0, 0, 5))
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def find_fault(
    offer: Offer, geometry: Geometry, device: torch.device, page_size: int
) -> str:
    """Try a backend; say what is wrong, or nothing.

    Args:
        offer: Builds it.
        geometry: Of the model.
        device: Where.
        page_size: Tokens in a page.
    """
    seen = sorted({min(window, NARROW) for window in geometry.windows or (0,)})
    try:
        # Two layers of each, since the second may use what the first computed.
        return _compare(offer, geometry, device, page_size, (*seen, *seen))
    except Exception as error:
        words = " ".join(str(error).split())
        return f"{type(error).__name__}: {words}"


def _compare(
    offer: Offer,
    geometry: Geometry,
    device: torch.device,
    page_size: int,
    windows: tuple[int, ...],
) -> str:
    heads = geometry.num_heads
    cache = _filled(geometry, device, page_size, len(windows))
    oracle = ReferenceAttention(cache, heads, windows)
    backend = offer.build(cache, heads, windows)
    batch = _rows(page_size, device)
    inputs = _inputs(geometry, len(batch.positions), device)
    step, static = backend.prepare(batch), _static(backend, batch)
    rows = batch.num_decodes
    tolerance = FP8_TOLERANCE if geometry.held_dtype == FP8 else TOLERANCE
    some = [one[: rows + 1] for one in inputs]
    for layer, window in enumerate(windows):
        want = oracle.prepare(batch).attend(layer, *inputs)
        what = f"with a window of {window}" if window else "without a window"
        if off := _distance(step.attend(layer, *inputs), want, tolerance):
            return f"{what} it is off by {off:.2g}"
        if static is None:
            continue
        got = static.attend(layer, some[0], some[1], some[2])[:rows]
        if off := _distance(got, want[:rows], tolerance):
            return f"{what} its static step is off by {off:.2g}"
    return ""


def _static(backend: AttentionBackend, batch: AttentionBatch) -> StaticStep | None:
    """Make the decodes a static step with one row of padding."""
    if not isinstance(backend, CapturableAttention):
        return None
    rows = batch.num_decodes
    step = backend.reserve(rows + 1, PAGES + 1, len(ROWS) * PAGES)
    step.fill(batch.starts[:rows], batch.tables[:rows])
    return step


def _filled(
    geometry: Geometry, device: torch.device, page_size: int, num_layers: int
) -> KvCache:
    cache = KvCache(
        num_layers=num_layers,
        num_pages=len(ROWS) * PAGES + 1,
        page_size=page_size,
        num_kv_heads=geometry.num_kv_heads,
        head_dim=geometry.head_dim,
        dtype=geometry.held_dtype,
        device=device,
    )
    random = torch.Generator(device).manual_seed(1)
    for pool in (cache.keys, cache.values):
        pool.copy_(torch.randn(pool.shape, generator=random, device=device))
    return cache


def _rows(page_size: int, device: torch.device) -> AttentionBatch:
    starts = np.array([max(p * page_size + over, 0) for p, over, _ in ROWS])
    counts = np.array([count for _, _, count in ROWS])
    pages = np.random.default_rng(1).permutation(len(ROWS) * PAGES)
    tables = pages.reshape(len(ROWS), PAGES)
    return AttentionBatch.of(starts, counts, tables, page_size=page_size, device=device)


def _inputs(geometry: Geometry, tokens: int, device: torch.device) -> Inputs:
    """Draw queries, keys and values that lie within one tensor, as a model's do."""
    heads, kv_heads = geometry.num_heads, geometry.num_kv_heads
    random = torch.Generator(device).manual_seed(2)
    fused = torch.randn(
        (tokens, heads + 2 * kv_heads, geometry.head_dim),
        generator=random,
        device=device,
    ).to(geometry.dtype)
    q, k = fused[:, :heads], fused[:, heads : heads + kv_heads]
    return q, k, fused[:, heads + kv_heads :]


def _distance(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> float:
    """How far off it is, or 0 where that may be rounding."""
    error = (got.float() - want.float()).square().sum().sqrt()
    off = float(error) / max(float(want.float().square().sum().sqrt()), 1e-20)
    # Not "off > tolerance": NaN must not pass.
    return 0.0 if off <= tolerance else off
