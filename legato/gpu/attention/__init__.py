"""Attention over a paged cache: one interface, several backends, one contract."""

from .backend import AttentionBackend, StepAttention
from .batch import AttentionBatch
from .cache import KvCache
from .choice import ATTENTION_BACKENDS, choose_attention

__all__ = [
    "ATTENTION_BACKENDS",
    "AttentionBackend",
    "AttentionBatch",
    "KvCache",
    "StepAttention",
    "choose_attention",
]
