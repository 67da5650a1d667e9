"""Steps of nothing but greedy decodes, in one call to the kernels.

Most steps are: every slot goes on from its last token and takes the likeliest next.
What torch and numpy do around a forward pass is little work, but much code, which comes
from memory each time: the weights have taken its place in the caches.
"""

import numpy as np

from ..protocol.steps import StepPlan
from .model.native_decoder import NativeDecoder
from .native import structures
from .sampling import Sampled, faults_of
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
            slots.future.data_ptr(),
        )
        self._enter(Decodes.of(()))

    def run(self, plan: StepPlan) -> Sampled | None:
        """Run a step; None if there is more to it, and then do nothing.

        Raises:
            ValueError: A slot was never opened, or it has no page for a position.
        """
        if plan.rows or plan.opens or plan.copies or not plan.decodes:
            self._enter(Decodes.of(()))  # who has a slot may want something else
            return None
        # While nobody comes or goes, every plan carries the same tuple.
        is_known = plan.decodes is self._entered.plan
        if not is_known and not self._slots.take_likeliest(plan.decodes):
            return None
        decodes = self._slots.tables.grow(plan)
        if not is_known:
            self._enter(decodes)
        wrong = self._decoder.decode(self._structure)
        if wrong >= 0:
            slot = plan.decodes[wrong]
            end = int(self._slots.tables.ends[slot])
            raise self._slots.tables.out_of_room(slot, end, end + 1)
        return Sampled(self._tokens.tolist(), faults=faults_of(self._peaks.tolist()))

    def _enter(self, decodes: Decodes) -> None:
        self._entered = decodes
        self._tokens = np.zeros(len(decodes.plan), np.int64)
        self._peaks = np.zeros(len(decodes.plan), np.float32)
        self._structure = structures.Decodes(
            self._arrays,
            *(decodes.slots.ctypes.data, len(decodes.plan)),
            *(self._tokens.ctypes.data, self._peaks.ctypes.data),
        )
