"""Attention over a paged cache: one interface, several backends, one contract."""

from .backend import AttentionBackend, CapturableAttention, StepAttention
from .batch import AttentionBatch
from .cache import KvCache
from .choice import ATTENTION_BACKENDS, Availability, available, choose_attention
from .geometry import Geometry
from .static import StaticStep
from .tensors import StepTensors

__all__ = [
    "ATTENTION_BACKENDS",
    "AttentionBackend",
    "AttentionBatch",
    "Availability",
    "CapturableAttention",
    "Geometry",
    "KvCache",
    "StaticStep",
    "StepAttention",
    "StepTensors",
    "available",
    "choose_attention",
]
