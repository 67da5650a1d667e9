"""Tiny models on disk, and a planner small enough to see through."""

import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import Checkpoint, ModelConfig, RopeConfig, open_checkpoint
from legato.gpu.checkpoint.parameters import expected_parameters
from legato.gpu.cuda import CudaDevice, Device, build_stream_runner
from legato.gpu.cuda.host_device import HostDevice
from legato.gpu.cuda.late_device import LateDevice
from legato.gpu.parallel.group import Group, TorchGroup
from legato.gpu.parallel.runner import ParallelRunner
from legato.gpu.parallel.words import without_sampling
from legato.gpu.precision import hold
from legato.gpu.runner import ModelRunner, StepHandle
from legato.gpu.settings import RunnerSettings
from legato.protocol.steps import (
    RowSampling,
    SampledToken,
    SlotOpen,
    StepPlan,
    StepRow,
)

TINY = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden=64,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    ffn=96,
    vocab_size=96,
    max_context=256,
    norm_eps=2.0**-17,
    rope=RopeConfig(theta=10_000.0),
    tied_embeddings=True,
)
TOKENS = [f"t{index}" for index in range(96)]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    # Tiny tensors on busy cores: two threads wait for each other.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_config() -> ModelConfig:
    return TINY


@pytest.fixture(scope="session")
def random_parameters() -> Callable[..., dict[str, torch.Tensor]]:
    """Parameters of a configuration, large enough that tokens differ."""

    def make(config: ModelConfig = TINY, seed: int = 0) -> dict[str, torch.Tensor]:
        random = torch.Generator().manual_seed(seed)
        parameters: dict[str, torch.Tensor] = {}
        for name, shape in expected_parameters(config).items():
            values = torch.randn(shape, generator=random)
            scale = 0.3 if len(shape) > 1 else 0.1
            parameters[name] = values * scale + (1.0 if "norm" in name else 0.0)
            if name == "rope_factors":
                parameters[name] = 1 + values.abs()
        return parameters

    return make


@pytest.fixture(scope="session")
def write_gguf() -> Callable[..., Path]:
    return _write_gguf


@pytest.fixture(scope="session")
def write_directory() -> Callable[..., Path]:
    return _write_directory


NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "rope_factors": "rope_freqs.weight",
}
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    _, _, layer, *part, kind = name.split(".")
    return f"blk.{layer}.{PARTS['.'.join(part)]}.{kind}"


def interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """What converters do to Llama's queries and keys."""
    halves = weight.view(heads, 2, -1, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)


def _write_gguf(
    path: Path,
    config: ModelConfig,
    parameters: dict[str, torch.Tensor],
    *,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    raw: dict[str, np.ndarray] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """Write a model; matrices get ``kind``, vectors stay float32."""
    writer = gguf.GGUFWriter(path, config.architecture)
    _add_metadata(writer, config)
    for key, value in (metadata or {}).items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(key, value)
    for name, weight in parameters.items():
        for part, heads in (("q", config.num_heads), ("k", config.num_kv_heads)):
            if f"{part}_proj" in name and config.architecture == "llama":
                weight = interleaved(weight, heads)
        target = gguf_name(name)
        if raw and target in raw:
            writer.add_tensor(target, raw[target], raw_dtype=kind)
        elif weight.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(target, weight.contiguous().numpy())
        else:
            quantized = gguf.quants.quantize(weight.contiguous().numpy(), kind)
            writer.add_tensor(target, quantized, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_metadata(writer: gguf.GGUFWriter, config: ModelConfig) -> None:
    writer.add_block_count(config.num_layers)
    writer.add_context_length(config.max_context)
    writer.add_embedding_length(config.hidden)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_freq_base(config.rope.theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    if config.rope.kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope.factor)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS[: config.vocab_size])
    writer.add_token_types([3, 3] + [1] * (min(config.vocab_size, 96) - 2))
    writer.add_token_merges(["t 1", "t 2"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{{ messages }}")


def _write_directory(
    folder: Path,
    config: ModelConfig,
    parameters: dict[str, torch.Tensor],
    *,
    shards: int = 1,
    **extra: Any,
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(config) | extra))
    tokenizer = {
        "model": {"vocab": {"a": 5, "b": 6}},
        "added_tokens": [{"id": 1, "content": "</s>"}, {"id": 0, "content": "<s>"}],
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    names = list(parameters)
    where: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard}.safetensors" if shards > 1 else "model.safetensors"
        mine = names[shard::shards]
        save_file({name: parameters[name] for name in mine}, folder / file)
        where |= dict.fromkeys(mine, file)
    if shards > 1:
        index = json.dumps({"metadata": {}, "weight_map": where})
        (folder / "model.safetensors.index.json").write_text(index)
    return folder


def config_json(config: ModelConfig) -> dict[str, Any]:
    return {
        "attention_bias": config.output_bias,
        "model_type": config.architecture,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_context,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.theta,
        "tie_word_embeddings": config.tied_embeddings,
    }


@dataclass
class Line:
    """One sequence of a play: what it was given, what it said."""

    prompt: tuple[int, ...]
    sampling: RowSampling
    max_tokens: int
    slot: int
    forced: tuple[int, ...] = ()
    position: int = 0
    pages: int = 0
    # Tokens of steps that were launched, those in flight included.
    promised: int = 0
    sampled: list[SampledToken] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return [one.token for one in self.sampled]

    @property
    def is_done(self) -> bool:
        return self.promised >= self.max_tokens

    def row(self, chunk: int) -> tuple[int, tuple[int, ...], bool]:
        """Where it goes on: position, tokens, whether it samples."""
        if self.promised:
            said = self.promised - 1
            given = (self.forced[said],) if self.forced else ()
            return self.position, given, True
        tokens = self.prompt[self.position : self.position + chunk]
        return self.position, tokens, self.position + len(tokens) == len(self.prompt)


class Stage:
    """Plays sequences on a runner, decodes first, prompts in chunks.

    As many steps are in flight as the runner allows.
    """

    def __init__(self, runner: ModelRunner, *, chunk: int = 512, seed: int = 0) -> None:
        self.runner = runner
        self.chunk = chunk
        self.step = 0
        self.in_flight: deque[tuple[StepPlan, StepHandle]] = deque()
        order = np.random.default_rng(seed).permutation(runner.limits.num_pages)
        self.free = [int(page) for page in order]

    def play(self, lines: Sequence[Line]) -> list[list[int]]:
        opens = [
            SlotOpen(line.slot, line.sampling, len(line.prompt), (), line.prompt)
            for line in lines
        ]
        by_slot = {line.slot: line for line in lines}
        while waiting := [line for line in lines if not line.is_done]:
            plan = self._plan(waiting, tuple(opens))
            self.in_flight.append((plan, self.runner.launch(plan)))
            self.step, opens = self.step + 1, []
            if len(self.in_flight) == self.runner.launch_depth:
                self._finish(by_slot)
        while self.in_flight:
            self._finish(by_slot)
        return [line.tokens for line in lines]

    def _finish(self, by_slot: dict[int, Line]) -> None:
        plan, handle = self.in_flight.popleft()
        result = handle.wait()
        assert result.step == plan.step
        for slot, one in zip(plan.sampling_slots, result.sampled, strict=True):
            by_slot[slot].sampled.append(one)

    def _plan(self, lines: Sequence[Line], opens: tuple[SlotOpen, ...]) -> StepPlan:
        budget = self.runner.limits.max_step_tokens
        size = self.runner.limits.page_size
        rows: list[StepRow] = []
        decodes: list[int] = []
        grown: list[tuple[int, int]] = []
        for line in sorted(lines, key=lambda line: not line.promised):
            if budget < 1:
                break
            start, tokens, samples = line.row(min(self.chunk, budget))
            line.position = start + (len(tokens) or 1)
            line.promised += samples
            budget -= len(tokens) or 1
            more = -(-line.position // size) - line.pages
            pages = tuple(self.free.pop() for _ in range(more))
            line.pages += more
            if tokens:
                rows.append(StepRow(line.slot, start, tokens, samples, pages))
            else:
                decodes.append(line.slot)
                grown += [(line.slot, page) for page in pages]
        return StepPlan(self.step, tuple(rows), opens, (), tuple(decodes), tuple(grown))


@pytest.fixture(scope="session")
def stream_devices() -> dict[str, Callable[[], Device]]:
    """Devices to queue steps on, by name."""

    def cuda() -> Device:
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        return CudaDevice(torch.device("cuda"))

    return {"host": HostDevice, "late": LateDevice, "cuda": cuda}


@pytest.fixture(scope="session")
def build_on() -> Callable[..., ModelRunner]:
    """Make a runner of a model's file on a device."""

    def build(device: Device, path: Path, **options: Any) -> ModelRunner:
        kind = device.torch_device.type
        wanted = {"dtype": "float32", "attention": "reference"} | options
        settings = RunnerSettings(device=kind, **wanted)
        checkpoint = open_checkpoint(str(path))
        held = hold(checkpoint, settings, device.torch_device, None)
        checkpoint.close()
        return build_stream_runner(checkpoint.config, held, settings, device)

    return build


@pytest.fixture(scope="session")
def theatre() -> SimpleNamespace:
    return SimpleNamespace(Line=Line, Stage=Stage)


class ThreadCrew:
    """Ranks in threads of this process instead of processes: quick to start."""

    def __init__(self, size: int, build: Callable[[Group], ModelRunner]) -> None:
        self._build = build
        self.size = size
        self.members: list[Any] = []
        self._store = torch.distributed.HashStore()
        self._plans = [queue.SimpleQueue() for _ in range(1, self.size)]
        self._threads = [
            threading.Thread(target=self._run, args=(rank,))
            for rank in range(1, self.size)
        ]
        for thread in self._threads:
            thread.start()

    def group(self, rank: int) -> Group:
        return TorchGroup(self._store, rank, self.size, torch.device("cpu"))

    def send(self, plan: StepPlan) -> None:
        for plans in self._plans:
            plans.put(without_sampling(plan))

    def blame(self, error: Exception) -> Exception:
        return error

    def close(self) -> None:
        for plans in self._plans:
            plans.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self, rank: int) -> None:
        group = self.group(rank)
        runner = self._build(group)
        while (plan := self._plans[rank - 1].get()) is not None:
            try:
                runner.launch(plan).wait()
            except ValueError:
                pass  # a plan that the leading rank refuses as well
        group.close()


@pytest.fixture(scope="session")
def threaded_ranks() -> Callable[..., ModelRunner]:
    """Build a model over ranks that are threads."""

    def build(
        checkpoint: Checkpoint,
        settings: RunnerSettings,
        one: Callable[..., ModelRunner] = build_runner,
    ) -> ModelRunner:
        def build_one(group: Group) -> ModelRunner:
            return one(checkpoint, settings, group=group)

        crew = ThreadCrew(settings.tensor_parallel, build_one)
        group = crew.group(0)
        return ParallelRunner(build_one(group), group, cast(Any, crew))

    return build
