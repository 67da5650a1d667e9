"""CUDA behind the seam; everything else about it is tested through the runner."""

import time
from collections.abc import Iterator

import pytest
import torch

from legato.gpu.cuda import CudaDevice
from legato.gpu.cuda.device import Graph

pytestmark = pytest.mark.gpu


@pytest.fixture
def device() -> Iterator[CudaDevice]:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    made = CudaDevice(torch.device("cuda"))
    yield made
    made.release()


def test_a_copy_arrives_behind_its_mark(device: CudaDevice) -> None:
    source = device.pinned((1 << 20,), torch.int64)
    back = device.pinned((1 << 20,), torch.int64)
    target = torch.zeros(1 << 20, dtype=torch.int64, device=device.torch_device)
    device.settle()
    source.numpy()[:] = 7
    device.compute.copy(target, source)
    device.readback.follow(device.compute.mark())
    device.readback.copy(back, target)
    device.readback.mark().wait()
    assert (back == 7).all()


def test_a_graph_reads_what_tensors_hold_now(device: CudaDevice) -> None:
    x = torch.ones(1000, device=device.torch_device)
    out = torch.zeros(1000, device=device.torch_device)

    def work() -> None:
        out.copy_((x * 2).cumsum(0))

    device.settle()
    device.compute.run(work)
    graph = device.capture(work)
    device.compute.run(lambda: (x.fill_(5.0), None)[1])
    device.compute.run(graph.replay)
    device.settle()
    assert out[-1] == 10_000.0


def test_a_graph_keeps_what_its_work_refers_to(device: CudaDevice) -> None:
    out = torch.zeros(3, device=device.torch_device)

    def capture() -> Graph:
        ones = torch.ones(3, device=device.torch_device)

        def work() -> None:
            out.copy_(ones * 2)

        device.settle()
        device.compute.run(work)
        return device.capture(work)

    graph = capture()
    others = [torch.full_like(out, 9.0) for _ in range(100)]
    device.settle()
    device.compute.run(graph.replay)
    device.settle()
    assert len(others) == 100
    assert out.tolist() == [2.0] * 3


def test_what_fails_in_a_capture_is_told_and_the_stream_goes_on(
    device: CudaDevice,
) -> None:
    x = torch.ones(3, device=device.torch_device)

    def work() -> None:
        raise ValueError("from the work itself")

    with pytest.raises(ValueError, match="from the work itself"):
        device.capture(work)
    device.compute.run(lambda: (x.mul_(2), None)[1])
    device.settle()
    assert x.tolist() == [2.0] * 3


def test_marks_tell_device_time(device: CudaDevice) -> None:
    x = torch.ones(1 << 24, device=device.torch_device)
    device.settle()
    began_s = time.perf_counter()
    first = device.compute.mark()
    device.compute.run(lambda: [x.mul_(1.0) for _ in range(50)].clear())
    last = device.compute.mark()
    last.wait()
    assert 0 < last.seconds_after(first) <= time.perf_counter() - began_s


def test_a_peak_is_what_work_takes_at_once(device: CudaDevice) -> None:
    def work() -> None:
        for _ in range(3):
            torch.zeros(64 << 20, dtype=torch.uint8, device=device.torch_device)

    assert 64 << 20 <= device.peak_bytes(work) < 100 << 20


def test_too_much_is_an_out_of_memory_error(device: CudaDevice) -> None:
    def work() -> None:
        torch.zeros(1 << 50, dtype=torch.uint8, device=device.torch_device)

    with pytest.raises(torch.OutOfMemoryError):
        device.peak_bytes(work)


def test_phases_may_be_nested(device: CudaDevice) -> None:
    with device.phase("outer"), device.phase("inner"):
        device.compute.mark().wait()
