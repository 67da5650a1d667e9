"""Whole answers through kernels that read block tables, captured and replayed late."""

from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from legato.gpu.assembly import build_runner
from legato.gpu.attention import choice
from legato.gpu.attention.flash import flash_2, flash_3, schedule_3
from legato.gpu.attention.kernel import Call, Schedule
from legato.gpu.attention.offer import Offer
from legato.gpu.attention.varlen import varlen
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda import build_stream_runner
from legato.gpu.cuda.late_device import LateDevice
from legato.gpu.precision import hold
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.steps import RowSampling

from .candidates import over
from .emulated import Varlen, flash_2_varlen, flash_2_with_kvcache
from .emulated_flash_3 import flash_3_scheduler_metadata, flash_3_with_kvcache

Kernel = Callable[..., torch.Tensor]
GREEDY = RowSampling(0.0)
PROMPTS = [tuple(range(2, 39)), (7, 8), tuple(range(3, 90))]
# What each call of the operator below stands for; a recording knows only numbers.
CALLS: list[Callable[..., torch.Tensor]] = []


@torch.library.custom_op("legato_tests::kernel", mutates_args=())
def run_kernel(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    ints: list[torch.Tensor],
    call: int,
) -> torch.Tensor:
    return CALLS[call](q, keys, values, ints)


def opaque(kernel: Kernel) -> Kernel:
    """Let a kernel be one operator, whose Python a recording runs again."""

    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        given = signature(kernel).bind(*args, **kwargs).arguments
        (_, q), (_, keys), (_, values), *others = given.items()
        names = [name for name, one in others if isinstance(one, torch.Tensor)]
        fixed = {name: one for name, one in others if name not in names}

        def again(
            q: torch.Tensor,
            keys: torch.Tensor,
            values: torch.Tensor,
            ints: list[torch.Tensor],
        ) -> torch.Tensor:
            now = list(fixed.items()) + list(zip(names, ints, strict=True))
            in_order = {name: dict(now)[name] for name, _ in others}
            return rebuilt(kernel, (q, keys, values), in_order)

        CALLS.append(again)
        return run_kernel(
            *(q, keys, values, [given[name] for name in names], len(CALLS) - 1)
        )

    return call


def rebuilt(
    kernel: Kernel, tensors: tuple[torch.Tensor, ...], others: dict[str, Any]
) -> torch.Tensor:
    firsts = list(signature(kernel).parameters)[:3]
    return kernel(**dict(zip(firsts, tensors, strict=True)), **others)


def torchs(flavour: str, *, has_cu_k: bool) -> Call:
    return varlen(opaque(Varlen(flavour)), has_cu_k=has_cu_k)


FLASH_3 = flash_3(opaque(flash_3_with_kvcache))
KERNELS: dict[str, tuple[Call, bool, int]] = {
    "flash 2": (
        flash_2(opaque(flash_2_with_kvcache), opaque(flash_2_varlen)),
        *(True, 256),
    ),
    "flash 3": (FLASH_3, False, 8),
    "flash 3, scheduled": (FLASH_3, False, 8),
    "varlen FA2": (torchs("FA2", has_cu_k=True), True, 256),
    "varlen FA3": (torchs("FA3", has_cu_k=False), False, 16),
}

SCHEDULES: dict[str, Schedule] = {
    "flash 3, scheduled": schedule_3(flash_3_scheduler_metadata)
}


@pytest.fixture(scope="module")
def windowed(
    tmp_path_factory: pytest.TempPathFactory,
    write_directory: Callable[..., Path],
    random_parameters: Callable[..., Any],
    tiny_config: ModelConfig,
) -> Path:
    """A model whose first layer sees 20 positions."""
    folder = tmp_path_factory.mktemp("windowed")
    config = msgspec.structs.replace(tiny_config, max_context=128)
    types = ["sliding_attention", "full_attention"]
    return write_directory(
        *(folder, config, random_parameters(config)),
        sliding_window=20,
        layer_types=types,
    )


def settings(attention: str, page_size: int = 0) -> RunnerSettings:
    return RunnerSettings(
        device="cpu",
        dtype="bfloat16",
        attention=attention,
        page_size=page_size,
        num_slots=4,
        max_step_tokens=48,
    )


@pytest.fixture(scope="module")
def answers(windowed: Path, theatre: SimpleNamespace) -> list[list[int]]:
    runner = build_runner(open_checkpoint(str(windowed)), settings("reference"))
    return play(runner, theatre)


def play(runner: ModelRunner, theatre: SimpleNamespace) -> list[list[int]]:
    lines = [
        theatre.Line(prompt, GREEDY, 9 - slot, slot)
        for slot, prompt in enumerate(PROMPTS)
    ]
    said = theatre.Stage(runner, chunk=30).play(lines)
    runner.close()
    return said


@pytest.fixture
def late_runner(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, windowed: Path
) -> Iterator[ModelRunner]:
    call, splits, page_size = KERNELS[request.param]
    schedule = SCHEDULES.get(request.param)
    builder = over(call, splits=splits, schedule=schedule)
    offer = Offer("a kernel", builder, page_size=page_size)
    monkeypatch.setitem(choice.ATTENTION_BACKENDS, "kernel", lambda device: (offer,))
    device, checkpoint = LateDevice(), open_checkpoint(str(windowed))
    held = hold(checkpoint, settings("kernel"), device.torch_device, None)
    yield build_stream_runner(checkpoint.config, held, settings("kernel"), device)
    CALLS.clear()


@pytest.mark.slow
@pytest.mark.parametrize("late_runner", KERNELS, indirect=True)
def test_answers_through_captured_kernels_are_the_references(
    late_runner: ModelRunner, theatre: SimpleNamespace, answers: list[list[int]]
) -> None:
    assert "graphs" in late_runner.memory_report
    assert "attention kernel: a kernel" in late_runner.memory_report
    assert play(late_runner, theatre) == answers
