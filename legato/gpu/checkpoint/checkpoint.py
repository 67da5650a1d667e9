"""The one face of every checkpoint, whatever its format on disk."""

from pathlib import Path
from typing import Protocol

import torch

from ...protocol.models import TextSource
from .blocks import Blocks
from .config import ModelConfig
from .part import Part


class Checkpoint(Protocol):
    """An open model on disk; parameters are read when they are asked for."""

    @property
    def name(self) -> str:
        """What the model is called when it is served."""
        ...

    @property
    def path(self) -> Path:
        """The file or directory."""
        ...

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    @property
    def text(self) -> TextSource:
        """Vocabulary, template, ends."""
        ...

    def parameter(self, name: str, part: Part | None = None) -> torch.Tensor:
        """Read one parameter, or a part of it, by its canonical name.

        Floating types keep their stored type; quantized ones become float32. Query
        and key weights are in the layout of half-split rotary positions.

        Raises:
            InvalidModel: The file changed or broke since it was opened.
        """
        ...

    def blocks(self, name: str) -> Blocks | None:
        """View a matrix in the blocks it is stored in, rows as ``parameter`` has them.

        Returns:
            None, if it is not stored in blocks that are simple.

        Raises:
            InvalidModel: The file changed or broke since it was opened.
        """
        ...

    def close(self) -> None:
        """Let go of the files. May be called again."""
        ...
