"""Which part of a model a rank holds."""

import math

from msgspec.structs import replace

from ...protocol.errors import InvalidSetting
from ..checkpoint import ModelConfig
from ..checkpoint.parameters import EMBEDDING, HEAD
from ..checkpoint.part import Part
from .group import Group

BY_ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
BY_COLUMNS = ("o_proj", "down_proj")


class Shard:
    """A rank's part of a model; all of it where there is no group.

    Args:
        whole: The model's shape.
        group: The ranks, or None.

    Raises:
        InvalidSetting: The model does not divide among so many.
    """

    def __init__(self, whole: ModelConfig, group: Group | None = None) -> None:
        self.group = group
        self.rank, self.size = (group.rank, group.size) if group else (0, 1)
        check_divides(whole, self.size)
        self.config = replace(
            whole,
            num_heads=whole.num_heads // self.size,
            num_kv_heads=whole.num_kv_heads // self.size,
            ffn=whole.ffn // self.size,
        )
        self._whole = whole

    @property
    def vocab_rows(self) -> int:
        """Rows of embedding and head here; the last rank's are filled up with zeros."""
        return -(-self._whole.vocab_size // self.size)

    def part(self, name: str) -> Part | None:
        """What to read of a parameter; None is all of it."""
        if self.size == 1:
            return None
        if name in (EMBEDDING, HEAD):
            start = self.rank * self.vocab_rows
            stop = min(start + self.vocab_rows, self._whole.vocab_size)
            return Part(0, min(start, stop), stop)
        owner, _, kind = name.rpartition(".")
        matrix = owner.rpartition(".")[2]
        if matrix in BY_ROWS:
            return self._share(0, self._width(matrix))
        if matrix in BY_COLUMNS and kind == "weight":
            return self._share(1, self._width(matrix))
        return None

    def _share(self, axis: int, width: int) -> Part:
        each = width // self.size
        return Part(axis, self.rank * each, (self.rank + 1) * each)

    def _width(self, matrix: str) -> int:
        whole = self._whole
        if matrix in ("q_proj", "o_proj"):
            return whole.num_heads * whole.head_dim
        if matrix in ("k_proj", "v_proj"):
            return whole.num_kv_heads * whole.head_dim
        return whole.ffn


def check_divides(config: ModelConfig, size: int) -> None:
    """Refuse a number of ranks among which a model does not divide.

    Raises:
        InvalidSetting: With the numbers that would work.
    """
    common = math.gcd(config.num_kv_heads, config.ffn)
    if common % size:
        fit = [str(n) for n in range(1, common + 1) if common % n == 0]
        raise InvalidSetting(
            f"tensor_parallel is {size}, but the model's {config.num_kv_heads} key and "
            f"value heads and MLP of {config.ffn} do not divide by it; choose "
            f"{' or '.join(fit)}"
        )
