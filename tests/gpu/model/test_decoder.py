"""The forward pass, against one written out densely in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from legato.gpu.assembly import find_geometry
from legato.gpu.attention import AttentionBatch, KvCache, choose_attention
from legato.gpu.checkpoint import Checkpoint, ModelConfig, RopeConfig, open_checkpoint
from legato.gpu.model import Decoder, load_weights
from legato.gpu.model.rotary import rope_frequencies

CPU = torch.device("cpu")
IDS = torch.tensor([3, 17, 90, 5, 5, 60, 1, 44, 23, 8])
Parameters = dict[str, torch.Tensor]


def dense(config: ModelConfig, parameters: Parameters) -> torch.Tensor:
    """Logits of every position: [tokens, vocab]."""
    p = {name: weight.double() for name, weight in parameters.items()}
    x = p["model.embed_tokens.weight"][IDS]
    for layer in range(config.num_layers):
        mine = {
            name.removeprefix(f"model.layers.{layer}."): weight
            for name, weight in p.items()
        }
        window = config.windows[layer] if config.windows else 0
        y = norm(config, x, mine["input_layernorm.weight"])
        x = x + attention(config, mine, y, window)
        y = norm(config, x, mine["post_attention_layernorm.weight"])
        gate, up = y @ mine["mlp.gate_proj.weight"].T, y @ mine["mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ mine["mlp.down_proj.weight"].T
    x = norm(config, x, p["model.norm.weight"])
    return x @ p.get("lm_head.weight", p["model.embed_tokens.weight"]).T


def attention(
    config: ModelConfig, p: Parameters, x: torch.Tensor, window: int
) -> torch.Tensor:
    def heads(name: str, count: int) -> torch.Tensor:
        y = x @ p[f"self_attn.{name}_proj.weight"].T
        y = y + p.get(f"self_attn.{name}_proj.bias", torch.zeros(1))
        y = y.view(len(x), count, config.head_dim)
        if f"self_attn.{name}_norm.weight" in p:
            y = norm(config, y, p[f"self_attn.{name}_norm.weight"])
        return y if name == "v" else rotate(config, y, p.get("rope_factors"))

    q = heads("q", config.num_heads)
    group = config.num_heads // config.num_kv_heads
    k = heads("k", config.num_kv_heads).repeat_interleave(group, 1)
    v = heads("v", config.num_kv_heads).repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / config.head_dim**0.5
    scores += torch.full_like(scores[0], -torch.inf).triu(1)
    if window:
        scores += torch.full_like(scores[0], -torch.inf).tril(-window)
    out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)
    out = out @ p["self_attn.o_proj.weight"].T
    return out + p.get("self_attn.o_proj.bias", torch.zeros(1))


def rotate(
    config: ModelConfig, y: torch.Tensor, factors: torch.Tensor | None
) -> torch.Tensor:
    """Rotate as complex numbers: the first half real, the second imaginary."""
    half = config.head_dim // 2
    frequencies = rope_frequencies(config.rope, config.head_dim, factors)
    turn = torch.outer(torch.arange(len(y)).double(), frequencies)[:, None]
    z = torch.complex(y[..., :half], y[..., half:]) * torch.exp(1j * turn)
    return torch.cat([z.real, z.imag], -1)


def norm(config: ModelConfig, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt() * weight


def logits(checkpoint: Checkpoint, dtype: torch.dtype) -> torch.Tensor:
    config = checkpoint.config
    weights = load_weights(checkpoint, dtype, CPU)
    cache = KvCache(
        num_layers=config.num_layers,
        num_pages=4,
        page_size=4,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        dtype=dtype,
        device=CPU,
    )
    geometry = find_geometry(config, dtype)
    attention = choose_attention("auto", geometry, CPU).build(cache, geometry)
    decoder = Decoder(config, weights, attention, 16)
    batch = AttentionBatch.of(
        np.array([0]), np.array([10]), np.array([[2, 0, 3]]), page_size=4, device=CPU
    )
    return decoder.forward(IDS, batch, torch.tensor([4, 9]))


VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "untied": {"tied_embeddings": False},
    "biased": {"qkv_bias": True, "output_bias": True},
    "qwen2": {"architecture": "qwen2", "qkv_bias": True, "tied_embeddings": False},
    "qwen3": {"architecture": "qwen3", "qk_norm": True, "head_dim": 24},
    "mistral": {"architecture": "mistral", "num_kv_heads": 1},
    "windowed": {"architecture": "mistral", "windows": (3, 0)},
    "linear": {"rope": RopeConfig(theta=1e4, kind="linear", factor=4.0)},
    "llama3": {
        "rope": RopeConfig(
            theta=5e5,
            kind="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_context=64,
        )
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_directory_computes_what_its_parameters_say(
    name: str,
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    config = replace(tiny_config, **VARIANTS[name])
    parameters = random_parameters(config)
    rope = config.rope
    extra: dict[str, Any] = {}
    if rope.kind != "default":
        extra["rope_scaling"] = {
            "rope_type": rope.kind,
            "factor": rope.factor,
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_context,
        }
    if config.windows:
        extra["sliding_window"] = max(config.windows)
        extra["layer_types"] = [
            "sliding_attention" if window else "full_attention"
            for window in config.windows
        ]
    path = write_directory(tmp_path / "model", config, parameters, **extra)
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.config.rope == rope or rope.kind == "linear"
    got = logits(checkpoint, torch.float32)
    want = dense(config, parameters)[[4, 9]].float()
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "untied", "qwen2", "qwen3", "linear"])
def test_a_gguf_file_computes_the_same(
    name: str,
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    config = replace(tiny_config, **VARIANTS[name])
    parameters = random_parameters(config)
    path = write_gguf(tmp_path / "tiny.gguf", config, parameters)
    checkpoint = open_checkpoint(str(path))
    assert checkpoint.config == config
    got = logits(checkpoint, torch.float32)
    want = dense(config, parameters)[[4, 9]].float()
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_a_gguf_files_own_rope_factors_are_used(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_gguf: Callable[..., Path],
) -> None:
    config = replace(tiny_config, rope=RopeConfig(theta=1e4, kind="factors"))
    parameters = random_parameters(config)
    path = write_gguf(tmp_path / "tiny.gguf", config, parameters)
    got = logits(open_checkpoint(str(path)), torch.float32)
    for layer in range(config.num_layers):
        parameters[f"model.layers.{layer}.rope_factors"] = parameters["rope_factors"]
    want = dense(config, parameters)[[4, 9]].float()
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_bfloat16_is_near(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Parameters],
    write_directory: Callable[..., Path],
) -> None:
    parameters = random_parameters(tiny_config)
    path = write_directory(tmp_path / "model", tiny_config, parameters)
    got = logits(open_checkpoint(str(path)), torch.bfloat16)
    want = dense(tiny_config, parameters)[[4, 9]].float()
    assert (got - want).abs().mean() < 0.02 * want.abs().mean()
