import pytest
import torch

from legato.gpu.cuda.late_device import LateDevice

ONES = torch.ones(4, dtype=torch.int64)


def test_nothing_runs_before_somebody_waits() -> None:
    device, told = LateDevice(), list[int]()
    device.compute.run(lambda: told.append(1))
    mark = device.compute.mark()
    device.compute.run(lambda: told.append(2))
    assert told == []
    mark.wait()
    assert told == [1]
    device.settle()
    assert told == [1, 2]


def test_host_memory_changed_before_its_copy_changes_what_arrives() -> None:
    device, target = LateDevice(), torch.zeros(4, dtype=torch.int64)
    source = device.pinned((4,), torch.int64)
    source.copy_(ONES)
    device.compute.copy(target, source)
    source.fill_(9)
    device.settle()
    assert target.tolist() == [9] * 4


def test_host_memory_means_nothing_once_it_was_copied() -> None:
    device, target = LateDevice(), torch.zeros(4, dtype=torch.int64)
    source = device.pinned((4,), torch.int64)
    source.copy_(ONES)
    device.compute.copy(target, source)
    device.settle()
    assert target.equal(ONES)
    assert not (source == ONES).any()


def test_a_result_means_nothing_before_it_arrived() -> None:
    device = LateDevice()
    target = device.pinned((4,), torch.int64)
    device.readback.copy(target, ONES)
    assert not (target == ONES).any()
    device.readback.mark().wait()
    assert target.equal(ONES)


def test_a_copy_between_ordinary_tensors_is_refused() -> None:
    with pytest.raises(ValueError, match="pinned"):
        LateDevice().compute.copy(ONES.clone(), ONES)


def test_streams_run_in_any_order_unless_one_follows_the_other() -> None:
    free, led = set[str](), set[str]()
    for seed in range(20):
        for told, follows in ((free, False), (led, True)):
            device, order = LateDevice(seed), list[str]()
            device.compute.run(lambda order=order: order.append("c"))
            if follows:
                device.readback.follow(device.compute.mark())
            device.readback.run(lambda order=order: order.append("r"))
            device.settle()
            told.add("".join(order))
    assert (free, led) == ({"cr", "rc"}, {"cr"})


def test_streams_that_wait_for_each_other_are_an_error() -> None:
    device = LateDevice()
    device.readback.queue.append(first := device.readback.mark())
    device.readback.queue.clear()
    device.compute.follow(first)
    with pytest.raises(RuntimeError, match="wait for each other"):
        device.compute.mark().wait()


def test_time_between_marks_needs_both_reached() -> None:
    device = LateDevice()
    first, second = device.compute.mark(), device.compute.mark()
    with pytest.raises(RuntimeError, match="not come there"):
        second.seconds_after(first)
    second.wait()
    assert second.seconds_after(first) >= 0
