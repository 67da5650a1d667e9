"""From logits to tokens: what a request asked for, and nothing of other requests."""

from .sampler import SampleRow, sample
from .wishes import SlotWishes

__all__ = ["SampleRow", "SlotWishes", "sample"]
