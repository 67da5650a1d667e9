"""Host memory that steps go to and come from the device through.

A ring of berths, one for each step that may be in flight and one more: a berth is
written again only when its last step is done and read, so that no copy ever reads or
writes what the host changes.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from .device import Device

Ints = npt.NDArray[np.int64]


class Occupant(Protocol):
    """The step in a berth."""

    def wait(self) -> object:
        """Block until it is done and its results are out of the berth."""
        ...


class Berth:
    """One step's host memory.

    Args:
        device: Whose copies use it.
        words: Of everything a step needs, in int64.
        outcomes: As the sampler has them; so are the others.
        reports: As above.
        masks: As above.

    ``values`` [words] int64 is ``inputs`` for numpy.
    """

    def __init__(
        self,
        device: Device,
        words: int,
        outcomes: torch.Tensor,
        reports: torch.Tensor,
        masks: torch.Tensor,
    ) -> None:
        self.inputs = device.pinned((words,), torch.int64)
        self.outcomes = device.pinned(tuple(outcomes.shape), outcomes.dtype)
        self.reports = device.pinned(tuple(reports.shape), reports.dtype)
        self.masks = device.pinned(tuple(masks.shape), masks.dtype)
        self.occupant: Occupant | None = None
        self.values: Ints = self.inputs.numpy()
        self.used = 0

    def put(self, values: Ints | Sequence[int]) -> slice:
        """Write integers behind those written before; say where they are."""
        place = slice(self.used, self.used + len(values))
        self.values[place] = values
        self.used = place.stop
        return place

    def put_masks(self, masks: Sequence[bytes]) -> None:
        """Write grammars' masks; what is beyond a mask's end is not allowed."""
        rows = self.masks.numpy()
        rows[: len(masks)] = 0
        width = rows.shape[1]
        for row, mask in zip(rows, masks, strict=False):
            words = np.frombuffer(mask, np.int32)[:width]
            row[: len(words)] = words


class Ring:
    """Berths, used in turn.

    Args:
        berths: At least one more than steps may be in flight.
    """

    def __init__(self, berths: Sequence[Berth]) -> None:
        self._berths = berths
        self._next = 0

    def acquire(self) -> Berth:
        """Take the next berth, empty; waits for its last step if it must."""
        berth = self._berths[self._next]
        self._next = (self._next + 1) % len(self._berths)
        if berth.occupant is not None:
            berth.occupant.wait()
        berth.occupant, berth.used = None, 0
        return berth
