"""Steps of nothing but decodes, in one call to the kernels.

Most steps are: every slot goes on from its last token, and nobody wants more of the
next than to have it chosen from the logits as they are.
What torch and numpy do around a forward pass is little work, but much code, which comes
from memory each time: the weights have taken its place in the caches.
"""

import ctypes
from collections.abc import Sequence

import numpy as np
import torch

from ..protocol.steps import RowSampling, StepPlan
from .model.native_decoder import NativeDecoder
from .native import structures
from .sampling import Sampled, SampleRow, faults_of
from .sampling.randomness import signed
from .sampling.wishes import COLDEST
from .slots import Slots
from .tables import Decodes


class NativeDecodes:
    """Runs such steps.

    Args:
        decoder: The model.
        slots: The runner's. What they hold afterwards is the same as if torch had run
            the step.
    """

    def __init__(self, decoder: NativeDecoder, slots: Slots) -> None:
        self._decoder = decoder
        self._slots = slots
        tables = slots.tables
        self._arrays = structures.Slots(
            *(tables.pages.ctypes.data, tables.most_pages),
            *(tables.ends.ctypes.data, tables.room.ctypes.data),
            *(tables.prompts.ctypes.data, slots.future.data_ptr()),
        )
        self._enter(Decodes.of(()), [])

    def run(self, plan: StepPlan) -> Sampled | None:
        """Run a step; None if there is more to it, and then do nothing.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        if plan.rows or plan.opens or plan.copies or not plan.decodes:
            self._enter(Decodes.of(()), [])  # who has a slot may want something else
            return None
        # While nobody comes or goes, every plan carries the same tuple.
        if plan.decodes is self._entered.plan:
            self._slots.tables.grow(plan)
        elif wants := self._slots.simple_wishes(plan.decodes):
            self._enter(self._slots.tables.grow(plan), wants)
        else:
            return None
        wrong = self._decoder.decode(self._structure)
        if wrong >= 0:
            slot = plan.decodes[wrong]
            end = int(self._slots.tables.ends[slot])
            raise self._slots.tables.out_of_room(slot, end, end + 1)
        return Sampled(self._tokens.tolist(), faults=faults_of(self._peaks.tolist()))

    def _enter(self, decodes: Decodes, wants: Sequence[RowSampling]) -> None:
        self._entered = decodes
        self._wishes = wishes_of(wants, self._decoder.vocab_size)
        self._tokens = np.zeros(len(decodes.plan), np.int64)
        self._peaks = np.zeros(len(decodes.plan), np.float32)
        self._structure = structures.Decodes(
            *(self._arrays, decodes.slots.ctypes.data, self._wishes),
            *(len(decodes.plan), self._tokens.ctypes.data, self._peaks.ctypes.data),
        )


class NativeDrawing:
    """Draws as such steps do, for rows of other steps: a token must not depend on them.

    Args:
        decoder: The model.
    """

    def __init__(self, decoder: NativeDecoder) -> None:
        self._decoder = decoder

    def __call__(
        self, logits: torch.Tensor, rows: Sequence[SampleRow], drawn: Sequence[int]
    ) -> torch.Tensor:
        """Draw tokens, as ``Drawing``."""
        some = [rows[place] for place in drawn]
        wants = [row.wishes.sampling for row in some]
        tokens = self._decoder.choose(
            logits,
            np.array(drawn, np.int64),
            wishes_of(wants, self._decoder.vocab_size),
            np.array([row.output for row in some], np.int64),
        )
        return torch.asarray(tokens)


def wishes_of(
    wants: Sequence[RowSampling], vocab_size: int
) -> "ctypes.Array[structures.Wish]":
    """What rows wish, as the kernels take it."""
    return (structures.Wish * len(wants))(*(_wish(want, vocab_size) for want in wants))


def _wish(want: RowSampling, vocab_size: int) -> structures.Wish:
    return structures.Wish(
        want.temperature if want.temperature >= COLDEST else 0,
        *(want.top_p, want.min_p),
        want.top_k if 0 < want.top_k < vocab_size else 0,
        signed(want.seed),
    )
