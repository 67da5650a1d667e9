"""What a model's files say: shapes, parameters, text.

Knows the formats on disk; nothing of devices or of how a forward pass runs.
"""

from ..embedded import EMBEDDED_MODELS
from .blocks import Blocks, GgufType
from .checkpoint import Checkpoint
from .config import ModelConfig, RopeConfig
from .door import open_checkpoint

__all__ = [
    "EMBEDDED_MODELS",
    "Blocks",
    "Checkpoint",
    "GgufType",
    "ModelConfig",
    "RopeConfig",
    "open_checkpoint",
]
