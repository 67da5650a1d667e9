"""From logits to tokens: what a request asked for, and nothing of other requests."""

from .sampler import Sampled, SampleRow, faults_of, sample
from .scoring import Scoring, scored_rows
from .wishes import SlotWishes

__all__ = [
    "SampleRow",
    "Sampled",
    "Scoring",
    "SlotWishes",
    "faults_of",
    "sample",
    "scored_rows",
]
