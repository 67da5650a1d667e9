"""Top-k and top-p without sorting, and without asking the host.

The boundary among a row's weights is found by bisection over float32's bit patterns,
which for numbers from 0 up are ordered as the numbers are: exact after 30 halvings, in
a fixed number of passes, which is what a captured graph needs. Of equal weights at the
boundary those with the lowest ids stay.
"""

from collections.abc import Callable

import torch

from ..sampling.draw import block_width

# The bit pattern of 1.0, the likeliest token's weight, is below 2**30.
_ABOVE_ONE = 0x3F80_0001
_HALVINGS = 30


def keep_top_k(weights: torch.Tensor, top_k: torch.Tensor) -> torch.Tensor:
    """Zero all but the k heaviest of each row.

    Args:
        weights: [rows, vocab] float32 in [0, 1].
        top_k: [rows, 1] int64, 1 to vocab.
    """
    bits = weights.view(torch.int32)
    limit = _boundary(weights, lambda at: (bits >= at).sum(1, keepdim=True) >= top_k)
    above = bits > limit
    rest = top_k - above.sum(1, keepdim=True)
    return _kept(weights, bits, limit, above, rest)


def keep_top_p(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero all but the heaviest of each row that together reach a share of its sum.

    Args:
        weights: [rows, vocab] float32 in [0, 1].
        top_p: [rows, 1] float32; from 1 on a row stays as it is.
    """
    bits = weights.view(torch.int32)
    mass = weights.sum(1, keepdim=True, dtype=torch.float64) * top_p
    limit = _boundary(weights, lambda at: _sum(weights, bits >= at) >= mass)
    above = bits > limit
    one = limit.view(torch.float32).double()
    # How many of the equals it takes: the first that reaches the mass is the last.
    rest = ((mass - _sum(weights, above)) / one).ceil().clamp(min=1)
    kept = _kept(weights, bits, limit, above, rest)
    return torch.where(top_p >= 1, weights, kept)


def _boundary(
    weights: torch.Tensor, holds: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Find each row's largest bit pattern for which something holds: [rows, 1].

    It holds for 0 and for all patterns up to some.
    """
    low = torch.zeros((len(weights), 1), dtype=torch.int32, device=weights.device)
    high = torch.full_like(low, _ABOVE_ONE)
    for _ in range(_HALVINGS):
        middle = (low + high) >> 1
        is_below = holds(middle)
        low = torch.where(is_below, middle, low)
        high = torch.where(is_below, high, middle)
    return low


def _sum(weights: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return torch.where(chosen, weights, 0.0).sum(1, keepdim=True, dtype=torch.float64)


def _kept(
    weights: torch.Tensor,
    bits: torch.Tensor,
    limit: torch.Tensor,
    above: torch.Tensor,
    rest: torch.Tensor,
) -> torch.Tensor:
    """Keep what is above a limit, and the first ``rest`` of what equals it."""
    equal = bits == limit
    # By blocks, since scans of a whole vocabulary use few of a GPU's processors.
    blocks = equal.view(len(bits), -1, block_width(bits.shape[1]))
    inside = blocks.cumsum(2, dtype=torch.int32)
    totals = inside[:, :, -1]
    before = totals.cumsum(1, dtype=torch.int32) - totals
    place = (inside + before[:, :, None]).view(bits.shape)
    return torch.where(above | (equal & (place <= rest)), weights, 0.0)
