"""What each slot wants of its logits, in tensors on the device.

Rows change only when a slot is opened. One more slot than the runner has stands behind
the others, for the padding rows of a captured step: greedy, and wanting nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ...protocol.steps import RowSampling, RunnerLimits, SlotOpen
from ..sampling.randomness import signed
from ..sampling.sampler import COLDEST
from ..sampling.wishes import GREEDY
from .device import Device

Row = npt.NDArray[np.int64]

PROMPT, END = 1, 2
INTEGERS = ("seed", "top_k", "min_tokens", "is_cold", "counts")
REALS = (
    "temperature",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "has_bias",
)
NUM_COLUMNS = len(INTEGERS) + len(REALS)
_MOST = 2**62


@dataclass(frozen=True)
class Wants:
    """What the rows of a step want, gathered: columns of [rows, 1] each.

    Args:
        integers: By name, int64.
        reals: By name, float32.
    """

    integers: dict[str, torch.Tensor]
    reals: dict[str, torch.Tensor]


class SlotSampling:
    """The tensors.

    Args:
        limits: Of the runner.
        device: Where they live.

    ``counts`` [slots, vocab] int32 is how often an answer had a token, ``marks``
    [slots, vocab] uint8 which tokens its prompt has and which end it, ``bias`` [slots,
    vocab] float32. Slots whose numbers do not refer to them hold anything.
    """

    def __init__(self, limits: RunnerLimits, device: Device) -> None:
        self._device = device
        self._vocab_size = limits.vocab_size
        where = device.torch_device
        shape = (limits.num_slots + 1, limits.vocab_size)
        self.counts = torch.zeros(shape, dtype=torch.int32, device=where)
        self.marks = torch.zeros(shape, dtype=torch.uint8, device=where)
        self.bias = torch.zeros(shape, dtype=torch.float32, device=where)
        plain = torch.asarray(pack(GREEDY, limits.vocab_size))
        self.table = plain.repeat(limits.num_slots + 1, 1).to(where)

    @property
    def num_bytes(self) -> int:
        """Memory of all of it."""
        parts = (self.counts, self.marks, self.bias, self.table)
        return sum(part.nbytes for part in parts)

    def write(self, slots: torch.Tensor, rows: torch.Tensor) -> None:
        """Give slots their numbers: [n] int64 and [n, columns] int64."""
        self.table.index_copy_(0, slots, rows)

    def open(self, opened: SlotOpen, sampling: RowSampling) -> None:
        """Queue what a slot wants of single tokens, if it wants anything.

        Args:
            opened: The slot, with its history.
            sampling: As it can be computed with.
        """
        slot, size = opened.slot, self._vocab_size
        if counts_tokens(sampling):
            known = np.array(_inside(opened.history, size), np.int64)
            prompt, answer = np.split(known, [len(_inside(_prompt(opened), size))])
            counts = np.bincount(answer, minlength=size).astype(np.int32)
            self._upload(self.counts[slot], counts)
        else:
            prompt = np.zeros(0, np.int64)
        if counts_tokens(sampling) or sampling.min_tokens > 0:
            marks = np.zeros(size, np.uint8)
            marks[prompt] |= PROMPT
            marks[_inside(sampling.ends, size)] |= END
            self._upload(self.marks[slot], marks)
        bias = {t: b for t, b in sampling.logit_bias.items() if 0 <= t < size}
        if bias:
            values = np.zeros(size, np.float32)
            values[list(bias)] = [float(value) for value in bias.values()]
            self._upload(self.bias[slot], values)

    def gather(self, slots: torch.Tensor) -> Wants:
        """Look up what rows want; [rows] int64."""
        rows = self.table[slots]
        reals = rows[:, len(INTEGERS) :].view(torch.float64).float()
        return Wants(
            {name: rows[:, n, None] for n, name in enumerate(INTEGERS)},
            {name: reals[:, n, None] for n, name in enumerate(REALS)},
        )

    def _upload(self, target: torch.Tensor, values: npt.NDArray[np.generic]) -> None:
        # A fresh buffer each time: it is rare, and torch reuses pinned memory only once
        # the copy that reads it is done.
        source = self._device.pinned(tuple(target.shape), target.dtype)
        source.numpy()[:] = values
        self._device.compute.copy(target, source)


def pack(sampling: RowSampling, vocab_size: int) -> Row:
    """Make a slot's row of the table; every number must fit a float32."""
    is_cold = sampling.temperature < COLDEST
    top_k = sampling.top_k if 0 < sampling.top_k < vocab_size else vocab_size
    integers = (
        signed(sampling.seed),
        top_k,
        max(-_MOST, min(sampling.min_tokens, _MOST)),
        int(is_cold),
        int(counts_tokens(sampling)),
    )
    reals = (
        1.0 if is_cold else float(sampling.temperature),
        *(float(sampling.top_p), float(sampling.min_p)),
        *(float(sampling.presence_penalty), float(sampling.frequency_penalty)),
        float(sampling.repetition_penalty),
        float(any(0 <= token < vocab_size for token in sampling.logit_bias)),
    )
    bits = np.array(reals, np.float64).view(np.int64)
    return np.concatenate((np.array(integers, np.int64), bits))


def counts_tokens(sampling: RowSampling) -> bool:
    """Whether a penalty looks at the tokens so far."""
    additive = sampling.presence_penalty != 0 or sampling.frequency_penalty != 0
    return additive or sampling.repetition_penalty != 1


def _prompt(opened: SlotOpen) -> tuple[int, ...]:
    return opened.history[: opened.prompt_tokens]


def _inside(tokens: Sequence[int], vocab_size: int) -> list[int]:
    return [token for token in tokens if 0 <= token < vocab_size]
