"""The parts of a model together compute what the whole does."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Checkpoint, ModelConfig, open_checkpoint
from legato.gpu.cuda import build_stream_runner
from legato.gpu.cuda.host_device import HostDevice
from legato.gpu.parallel.group import Group
from legato.gpu.parallel.shard import Shard
from legato.gpu.precision import hold
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.steps import RowSampling

PROMPT = tuple(range(2, 39))
GREEDY = RowSampling(0.0, logprobs=8)
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "an own head and a vocabulary that does not divide": {
        "tied_embeddings": False,
        "vocab_size": 91,
    },
    "biases": {"architecture": "llama", "qkv_bias": True, "output_bias": True},
    "normed queries and keys": {"architecture": "qwen3", "qk_norm": True},
}
Write = Callable[..., Path]
Build = Callable[..., ModelRunner]


@pytest.fixture(params=FAMILIES)
def checkpoint(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Write,
) -> Checkpoint:
    config = replace(tiny_config, num_kv_heads=4, **FAMILIES[request.param])
    folder = write_directory(tmp_path / "tiny", config, random_parameters(config))
    return open_checkpoint(str(folder))


def settings(ranks: int) -> RunnerSettings:
    return RunnerSettings(
        device="cpu", dtype="float32", tensor_parallel=ranks, kv_bytes=1 << 20
    )


def play(runner: ModelRunner, theatre: SimpleNamespace) -> list[Any]:
    """A few answers side by side, prompts in chunks; ids and log-probabilities."""
    prompts = [PROMPT, PROMPT[::-1], PROMPT[3:9]]
    lines = [theatre.Line(p, GREEDY, 12, slot) for slot, p in enumerate(prompts)]
    theatre.Stage(runner, chunk=7).play(lines)
    runner.close()
    return [one for line in lines for one in line.sampled]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_together_say_what_one_does(
    checkpoint: Checkpoint, theatre: SimpleNamespace, threaded_ranks: Build, ranks: int
) -> None:
    whole = play(build_runner(checkpoint, settings(1)), theatre)
    parts = play(threaded_ranks(checkpoint, settings(ranks)), theatre)
    assert [one.token for one in parts] == [one.token for one in whole]
    for got, want in zip(parts, whole, strict=True):
        assert got.logprobs.ids == want.logprobs.ids
        assert got.logprobs.values == pytest.approx(want.logprobs.values, abs=1e-4)


def on_streams(
    checkpoint: Checkpoint, settings: RunnerSettings, *, group: Group | None = None
) -> ModelRunner:
    shard, device = Shard(checkpoint.config, group), HostDevice()
    held = hold(checkpoint, settings, device.torch_device, None, shard)
    return build_stream_runner(shard.config, held, settings, device, group)


@pytest.mark.slow
def test_ranks_that_step_on_streams_share_the_first_ones_tokens(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Write,
    theatre: SimpleNamespace,
    threaded_ranks: Build,
) -> None:
    folder = write_directory(tmp_path / "tiny", tiny_config, random_parameters())
    checkpoint = open_checkpoint(str(folder))
    hot = RowSampling(1.5, seed=7, presence_penalty=0.5)
    few = replace(settings(2), num_slots=2, page_size=16, attention="reference")

    def said(runner: ModelRunner) -> list[list[int]]:
        lines = [theatre.Line(PROMPT, hot, 12, 0), theatre.Line(PROMPT, GREEDY, 12, 1)]
        answers = theatre.Stage(runner, chunk=7).play(lines)
        runner.close()
        return answers

    whole = said(build_runner(checkpoint, replace(few, tensor_parallel=1)))
    assert said(threaded_ranks(checkpoint, few, on_streams)) == whole


@pytest.mark.slow
def test_a_quantized_file_is_divided_after_it_is_dequantized(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_gguf: Write,
    theatre: SimpleNamespace,
    threaded_ranks: Build,
) -> None:
    from gguf import GGMLQuantizationType

    path = write_gguf(
        tmp_path / "tiny.gguf",
        tiny_config,
        random_parameters(),
        kind=GGMLQuantizationType.Q8_0,
    )
    checkpoint = open_checkpoint(str(path))
    whole = play(build_runner(checkpoint, settings(1)), theatre)
    parts = play(threaded_ranks(checkpoint, settings(2)), theatre)
    assert [one.token for one in parts] == [one.token for one in whole]


@pytest.mark.slow
def test_each_rank_holds_its_part_and_as_many_pages(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Write,
    threaded_ranks: Build,
) -> None:
    folder = write_directory(tmp_path / "tiny", tiny_config, random_parameters())
    checkpoint = open_checkpoint(str(folder))
    whole = build_runner(checkpoint, settings(1))
    part = threaded_ranks(checkpoint, settings(2))
    assert part.limits.page_bytes == whole.limits.page_bytes // 2
    assert part.limits.num_pages == whole.limits.num_pages * 2
    assert "on each of 2 ranks" in part.memory_report
    part.close()
    whole.close()
