"""From token ids to the vectors a decoder begins with."""

from typing import Protocol

import torch
from torch.nn import functional


class Embedding(Protocol):
    """A vector for each token."""

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up vectors: [tokens, hidden], of any floating type, for [tokens] ids."""
        ...


class TableEmbedding:
    """Vectors in a table.

    Args:
        table: [vocab, hidden].
    """

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up vectors."""
        return functional.embedding(ids, self.table)
