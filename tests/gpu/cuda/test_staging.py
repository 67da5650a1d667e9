import numpy as np
import torch

from legato.gpu.cuda.host_device import HostDevice
from legato.gpu.cuda.staging import Berth, Ring


def make_berth() -> Berth:
    shapes = torch.zeros(2, 2), torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int32)
    return Berth(HostDevice(), 16, *shapes)


class Step:
    def __init__(self) -> None:
        self.waited = 0

    def wait(self) -> None:
        self.waited += 1


def test_a_berth_is_taken_again_only_when_its_step_was_read() -> None:
    ring = Ring([make_berth(), make_berth()])
    first, step = ring.acquire(), Step()
    first.occupant = step
    first.put([1, 2])
    assert ring.acquire() is not first
    assert step.waited == 0
    again = ring.acquire()
    assert again is first
    assert (step.waited, again.occupant, again.used) == (1, None, 0)


def test_numbers_lie_behind_one_another() -> None:
    berth = make_berth()
    places = berth.put([1, 2]), berth.put(np.array([3])), berth.put(())
    assert places == (slice(0, 2), slice(2, 3), slice(3, 3))
    assert berth.inputs[:3].tolist() == [1, 2, 3]


def test_what_a_mask_does_not_reach_is_not_allowed() -> None:
    berth = make_berth()
    berth.masks.fill_(-1)
    long, short = np.arange(1, 7, dtype=np.int32), np.array([5], np.int32)
    berth.put_masks([long.tobytes(), short.tobytes()])
    assert berth.masks.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0]]
