from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from legato.gpu import precision
from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from legato.gpu.model.packed import PackedProjection
from legato.gpu.native import Kernels, KernelsUnavailable
from legato.gpu.precision import choose_dtype
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepRow

PAGE_BYTES = 2 * 2 * 16 * 2 * 16 * 4


@pytest.fixture
def checkpoint(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
) -> Checkpoint:
    path = write_gguf(tmp_path / "tiny.gguf", tiny_config, random_parameters())
    return open_checkpoint(str(path))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("device", "tpu", "'tpu' is unknown; choose one of auto, cpu, cuda"),
        ("dtype", "int3", "'int3' is unknown"),
        ("page_size", -1, "page_size is -1"),
        ("num_slots", -1, "num_slots is -1"),
        ("kv_bytes", -5, "kv_bytes is -5"),
    ],
)
def test_a_value_no_runner_can_have_is_refused(
    field: str, value: Any, told: str
) -> None:
    with pytest.raises(InvalidSetting, match=told):
        RunnerSettings(**{field: value})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attention": "warp"}, "'warp' does not run on cpu; choose auto or paged"),
        ({"max_context": 300}, "max_context is 300, .* made for 256"),
        (
            {"kv_bytes": PAGE_BYTES - 1},
            f"page of 16 tokens takes {PAGE_BYTES} bytes, and kv_bytes is "
            f"{PAGE_BYTES - 1}; raise it",
        ),
        ({"kv_bytes": 1 << 60}, r"asks for .* MiB, but .* MiB are free"),
        (
            {"max_context": 200, "kv_bytes": 12 * PAGE_BYTES},
            "max_context is 200, but .* 192",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_with_numbers(
    checkpoint: Checkpoint, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidSetting, match=told):
        build_runner(
            checkpoint, RunnerSettings(device="cpu", dtype="float32", **options)
        )


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({"kv_bytes": 12 * PAGE_BYTES}, True),
        ({"kv_bytes": 16 * PAGE_BYTES}, False),
        ({"kv_bytes": 12 * PAGE_BYTES, "max_context": 192}, False),
        ({}, False),
    ],
)
def test_a_pool_below_the_context_is_warned_of_with_numbers(
    checkpoint: Checkpoint,
    options: dict[str, Any],
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = RunnerSettings(device="cpu", dtype="float32", **options)
    runner = build_runner(checkpoint, settings)
    told = [one.getMessage() for one in caplog.records if "context" in one.getMessage()]
    if not warned:
        assert told == []
        return
    (line,) = told
    assert line.startswith("the key-value cache holds 192 tokens, but the context has")
    assert "256: prompt and answer together are cut to 192" in line
    assert "raise --kv-mib to 1 (kv_bytes), or set --max-context to at most 192" in line
    assert runner.limits.max_context == 192


def test_half_as_large_a_page_holds_a_native_cache(checkpoint: Checkpoint) -> None:
    if not isinstance(precision.load_kernels(), Kernels):
        pytest.skip("no C++ compiler")
    runner = build_runner(checkpoint, RunnerSettings(device="cpu", dtype="int8"))
    assert runner.limits.page_bytes == PAGE_BYTES // 2


def test_cuda_without_a_device_is_refused(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidSetting, match="use device cpu"):
        build_runner(checkpoint, RunnerSettings(device="cuda"))


def test_auto_is_bfloat16_only_where_it_is_native(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(precision, "has_native_bf16", lambda: False)
    assert choose_dtype("auto", cpu) is torch.float32
    monkeypatch.setattr(precision, "has_native_bf16", lambda: True)
    assert choose_dtype("auto", cpu) is torch.bfloat16


@pytest.mark.parametrize("found", ["kernels", "plain kernels", "none"])
def test_auto_packs_where_there_are_kernels_for_the_processor(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    kernels = precision.load_kernels()
    if found == "none":
        kernels = KernelsUnavailable("no compiler")
    if isinstance(kernels, KernelsUnavailable) and found != "none":
        pytest.skip(str(kernels))
    if found != "none":
        monkeypatch.setattr(kernels, "is_vectorised", found == "kernels")
    monkeypatch.setattr(precision, "load_kernels", lambda: kernels)
    settings = RunnerSettings(device="cpu")
    held = precision.hold(checkpoint, settings, torch.device("cpu"), None)
    assert isinstance(held.weights.head, PackedProjection) == (found == "kernels")
    assert (
        held.report
        == {
            "kernels": "; native kernels",
            "plain kernels": "",
            "none": "; without native kernels: no compiler",
        }[found]
    )


def test_the_pool_is_as_large_as_all_slots_could_use(checkpoint: Checkpoint) -> None:
    settings = RunnerSettings(device="cpu", dtype="float32", num_slots=3)
    runner = build_runner(checkpoint, settings)
    assert runner.limits.num_pages == 3 * 256 // 16
    assert runner.limits.page_bytes == PAGE_BYTES
    assert "48 pages of 16 tokens each" in runner.memory_report


@pytest.mark.parametrize(("chosen", "limit"), [(0, 128), (17, 17)])
def test_a_step_on_a_cpu_is_short_unless_chosen_otherwise(
    checkpoint: Checkpoint, chosen: int, limit: int
) -> None:
    settings = RunnerSettings(device="cpu", dtype="float32", max_step_tokens=chosen)
    assert build_runner(checkpoint, settings).limits.max_step_tokens == limit


def test_a_small_pool_bounds_the_context(checkpoint: Checkpoint) -> None:
    settings = RunnerSettings(device="cpu", dtype="float32", kv_bytes=5 * PAGE_BYTES)
    assert build_runner(checkpoint, settings).limits.max_context == 80


def test_progress_goes_from_nothing_to_all(checkpoint: Checkpoint) -> None:
    told: list[tuple[float, str]] = []
    build_runner(
        checkpoint,
        RunnerSettings(device="cpu"),
        progress=lambda fraction, what: told.append((fraction, what)),
    )
    fractions = [fraction for fraction, _ in told]
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert fractions == sorted(fractions)
    assert {what for _, what in told} == {"loading tiny"}


def test_numbers_that_broke_do_not_reach_the_pages_next_owner(
    checkpoint: Checkpoint, theatre: SimpleNamespace
) -> None:
    settings = RunnerSettings(device="cpu", dtype="float32", num_slots=2)
    runner = build_runner(checkpoint, settings)
    greedy, prompt = RowSampling(0.0), tuple(range(2, 21))
    opened = SlotOpen(0, greedy, len(prompt), (1, 2))
    plan = StepPlan(0, (StepRow(0, 0, prompt, True),), (opened,))
    want = runner.launch(plan).wait().sampled
    _, cache = runner._parts
    cache.keys[:, 3:5] = float("nan")
    cache.values[:, 3:5] = float("nan")
    opened = SlotOpen(0, greedy, len(prompt), (3, 4))
    plan = StepPlan(1, (StepRow(0, 0, prompt, True),), (opened,))
    assert runner.launch(plan).wait().sampled == want
    following = StepPlan(2, (), decodes=(0,))
    assert not runner.launch(following).wait().sampled[0].fault


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (StepRow(5, 0, (1,), True), "never opened"),
        (StepRow(0, 30, (1, 2, 3), True), "positions 30 to 33"),
        (StepRow(0, 0, (1,), True, (100_000,)), "outside the pool"),
    ],
)
def test_a_plan_that_breaks_the_limits_is_refused(
    checkpoint: Checkpoint, row: StepRow, told: str
) -> None:
    runner = build_runner(checkpoint, RunnerSettings(device="cpu", dtype="float32"))
    opened = SlotOpen(0, RowSampling(0.0), 3, (0, 1))
    with pytest.raises(ValueError, match=told):
        runner.launch(StepPlan(0, (row,), (opened,)))


def test_a_closed_runner_refuses_plans(checkpoint: Checkpoint) -> None:
    runner = build_runner(checkpoint, RunnerSettings(device="cpu"))
    runner.close()
    with pytest.raises(ValueError, match="closed"):
        runner.launch(StepPlan(0, ()))


@pytest.mark.parametrize(("attention", "limit"), [("auto", 40), ("paged", 256)])
def test_kernels_without_windows_end_the_context_with_them(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Callable[..., Path],
    attention: str,
    limit: int,
) -> None:
    if not isinstance(precision.load_kernels(), Kernels):
        pytest.skip("no C++ compiler")
    window = {"llama.attention.sliding_window": 40}
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_config, random_parameters(), metadata=window)
    settings = RunnerSettings(device="cpu", dtype="int8", attention=attention)
    runner = build_runner(open_checkpoint(str(path)), settings)
    assert runner.limits.max_context == limit
