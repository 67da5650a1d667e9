"""Random numbers that depend on a request's seed and an output's number alone.

No generator, no state: a counter is hashed, so that a token is drawn alike whatever
runs beside it, and again after a restart.
"""

from collections.abc import Sequence

import torch

_GOLDEN = 0x9E37_79B9_7F4A_7C15


def uniform(seeds: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """Hash seeds and output numbers into numbers in [0, 1).

    The hash is SplitMix64's (Steele, Lea and Flood, 2014) over both in turn.

    Args:
        seeds: [rows] int64.
        outputs: [rows] int64.

    Returns:
        [rows] float64.
    """
    bits = _mix(_mix(seeds + signed(_GOLDEN)) + (outputs + 1) * signed(_GOLDEN))
    return _shift(bits, 11).double() * 2.0**-53


def signed(value: int) -> int:
    """Wrap an integer to 64 bits with a sign, as int64 arithmetic does."""
    return (value + 2**63) % 2**64 - 2**63


def int64(values: Sequence[int], device: torch.device) -> torch.Tensor:
    """Make a tensor of integers of up to 64 bits, wrapped."""
    return torch.tensor([signed(value) for value in values], device=device)


def _mix(bits: torch.Tensor) -> torch.Tensor:
    bits = (bits ^ _shift(bits, 30)) * signed(0xBF58_476D_1CE4_E5B9)
    bits = (bits ^ _shift(bits, 27)) * signed(0x94D0_49BB_1331_11EB)
    return bits ^ _shift(bits, 31)


def _shift(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Shift right without the sign, which int64's own shift drags along."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
