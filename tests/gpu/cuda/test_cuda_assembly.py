"""How a stream runner's memory is shared out, and what is said if it is too little."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from legato.gpu import assembly, cuda
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda.device import Graph, Work
from legato.gpu.cuda.host_device import HostDevice
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting

PAGE_BYTES = 2 * 2 * 16 * 2 * 16 * 4
MIB = 1 << 20


class SmallDevice(HostDevice):
    """Has so much memory; says what steps take; captures so many graphs."""

    def __init__(self, free: int, peak: int = 0, graphs: int = 1000) -> None:
        super().__init__()
        self.free, self.peak, self.graphs = free, peak, graphs

    def free_bytes(self) -> int:
        return self.free

    def peak_bytes(self, work: Work) -> int:
        super().peak_bytes(work)
        return self.peak

    def capture(self, work: Work) -> Graph:
        self.graphs -= 1
        self.free -= 1 << 20
        if self.graphs < 0:
            raise torch.OutOfMemoryError("no")
        return super().capture(work)


@pytest.fixture
def tiny_file(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Path:
    return write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())


@pytest.fixture
def build(
    tiny_file: Path, build_on: Callable[..., ModelRunner]
) -> Callable[..., ModelRunner]:
    def make(device: HostDevice, **options: Any) -> ModelRunner:
        usual = {"num_slots": 2, "max_step_tokens": 8, "page_size": 16}
        return build_on(device, tiny_file, **usual | options)

    return make


def test_the_pool_is_a_share_of_what_steps_leave(
    build: Callable[..., ModelRunner],
) -> None:
    free, peak = 100 * PAGE_BYTES, 10 * PAGE_BYTES
    runner = build(SmallDevice(free, peak), kv_share=0.5)
    assert runner.limits.num_pages == 50 - 2 * 10
    runner = build(SmallDevice(free, peak), kv_share=0.45)
    assert runner.limits.num_pages == 45 - 2 * 10


def test_a_pool_is_no_larger_than_slots_can_fill(
    build: Callable[..., ModelRunner],
) -> None:
    runner = build(SmallDevice(1 << 40))
    assert runner.limits.num_pages == 2 * 256 // 16
    assert "all slots full" in runner.memory_report


def test_a_device_that_steps_alone_fill_is_refused_with_numbers(
    build: Callable[..., ModelRunner],
) -> None:
    told = f"room for {10 * PAGE_BYTES}, of which steps need {12 * PAGE_BYTES}"
    with pytest.raises(InvalidSetting, match=told):
        build(SmallDevice(10 * PAGE_BYTES, 6 * PAGE_BYTES))
    told = r"asks for 0\.1 MiB, but 0\.1 MiB are free, of which steps need 98304 bytes"
    with pytest.raises(InvalidSetting, match=told):
        build(SmallDevice(13 * PAGE_BYTES, 6 * PAGE_BYTES), kv_bytes=7 * PAGE_BYTES)


def test_no_room_for_a_graph_is_told_with_numbers(
    build: Callable[..., ModelRunner],
) -> None:
    # Two sizes of nine programs each, and one of the decodes.
    told = (
        r"capture decode steps of 1 rows: 45\.0 MiB were free, the graphs before took "
        r"19\.0 MiB; lower kv_share"
    )
    with pytest.raises(InvalidSetting, match=told):
        build(SmallDevice(64 * MIB, graphs=19))


def test_no_room_for_a_step_is_told_with_numbers(
    build: Callable[..., ModelRunner],
) -> None:
    class Full(SmallDevice):
        def peak_bytes(self, work: Work) -> int:
            raise torch.OutOfMemoryError("no")

    with pytest.raises(InvalidSetting, match=r"3\.0 MiB free; lower max_step_tokens"):
        build(Full(3 * MIB))


def test_what_was_captured_is_logged_as_a_table(
    build: Callable[..., ModelRunner], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "legato.gpu.cuda"):
        runner = build(SmallDevice(64 * MIB))
    head, *rows = [line.split() for line in caplog.messages]
    assert head == ["captured", "rows", "graphs", "ms", "MiB"]
    assert [[row[0], row[1], row[2], row[4]] for row in rows] == [
        ["sampling", "2", "9", "9.0"],
        ["sampling", "1", "9", "9.0"],
        ["decode", "2", "1", "1.0"],
        ["decode", "1", "1", "1.0"],
    ]
    assert "20 graphs 20.0 MiB" in runner.memory_report


def test_attention_that_cannot_be_captured_runs_without_graphs(
    build: Callable[..., ModelRunner],
) -> None:
    runner = build(HostDevice(), attention="paged")
    assert "no graphs" in runner.memory_report


def test_the_device_cuda_steps_on_streams(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU that says it is CUDA, up to the seam."""
    seen: list[Any] = []

    class Found(Exception):
        pass

    def hold(*told: Any) -> Any:
        seen.append(told[2])
        return None

    def stop(*told: Any) -> Any:
        raise Found

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(assembly, "hold", hold)
    monkeypatch.setattr(cuda, "CudaDevice", seen.append)
    monkeypatch.setattr(cuda, "build_stream_runner", stop)
    with pytest.raises(Found):
        assembly.build_runner(
            open_checkpoint(str(tiny_file)), RunnerSettings(device="cuda")
        )
    assert seen == [torch.device("cuda")] * 2
