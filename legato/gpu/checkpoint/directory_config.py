"""Reads ``config.json`` of a model directory."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...protocol.errors import InvalidModel
from .config import ModelConfig, RopeConfig, check_architecture

WHOLE_LAYERS = 28


class RopeJson(msgspec.Struct, frozen=True):
    """``rope_scaling``, or ``rope_parameters`` of newer files."""

    rope_type: str | None = None
    type: str | None = None
    rope_theta: float | None = None
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192
    partial_rotary_factor: float = 1.0


class ConfigJson(msgspec.Struct, frozen=True):
    """What of ``config.json`` matters here."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    rope_theta: float | None = None
    rope_scaling: RopeJson | None = None
    rope_parameters: RopeJson | None = None
    sliding_window: int | None = None
    use_sliding_window: bool | None = None
    max_window_layers: int | None = None
    layer_types: list[str] | None = None
    tie_word_embeddings: bool | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    quantization_config: dict[str, Any] | None = None
    eos_token_id: int | list[int] | None = None


T = TypeVar("T")


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file into a type.

    Raises:
        InvalidModel: Missing, not JSON, or not of that type; names the field.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError as error:
        raise InvalidModel(
            f"{path} is missing; a model directory holds config.json, tokenizer.json "
            "and safetensors"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidModel(f"{path} is malformed: {error}") from error


def directory_config(file: ConfigJson, source: str, *, has_head: bool) -> ModelConfig:
    """Make a configuration of it.

    Args:
        file: The file's content.
        source: Its name, for errors.
        has_head: The safetensors hold a head of their own.

    Raises:
        InvalidModel: It asks for what is not supported, by name.
    """
    check_architecture(file.model_type, source)
    refuse_options(file, source)
    is_qwen2 = file.model_type == "qwen2"
    tied = file.tie_word_embeddings
    config = ModelConfig(
        architecture=file.model_type,
        num_layers=file.num_hidden_layers,
        hidden=file.hidden_size,
        num_heads=file.num_attention_heads,
        num_kv_heads=file.num_key_value_heads or file.num_attention_heads,
        head_dim=file.head_dim or file.hidden_size // max(file.num_attention_heads, 1),
        ffn=file.intermediate_size,
        vocab_size=file.vocab_size,
        max_context=file.max_position_embeddings,
        norm_eps=file.rms_norm_eps,
        rope=_rope(file, source),
        tied_embeddings=not has_head if tied is None else tied,
        qkv_bias=file.attention_bias or is_qwen2,
        output_bias=file.attention_bias and not is_qwen2,
        qk_norm=file.model_type == "qwen3",
        windows=_windows(file, source),
    )
    config.check(source)
    return config


def refuse_options(file: ConfigJson, source: str) -> None:
    """Refuse what a forward pass here would get wrong.

    Raises:
        InvalidModel: Names the option.
    """
    if file.hidden_act != "silu":
        raise InvalidModel(f"{source}: hidden_act {file.hidden_act!r} is not supported")
    if file.mlp_bias:
        raise InvalidModel(f"{source}: mlp_bias is not supported")
    if file.quantization_config:
        method = file.quantization_config.get("quant_method", "unknown")
        raise InvalidModel(
            f"{source}: quantization_config ({method}) is not supported; use the "
            "unquantized model or a GGUF file"
        )


def _windows(file: ConfigJson, source: str) -> tuple[int, ...]:
    """Say how far each layer sees; nothing if all of them see everything."""
    layers, window = file.num_hidden_layers, file.sliding_window
    # Qwen's files name a window that is not used unless they say so, and then not by
    # the first layers, of which their code has a default number.
    is_qwen, is_used = file.model_type.startswith("qwen"), file.use_sliding_window
    if not window or not (not is_qwen if is_used is None else is_used):
        return ()
    types = file.layer_types
    if types is None:
        default = WHOLE_LAYERS if is_qwen else 0
        whole = default if file.max_window_layers is None else file.max_window_layers
        types = ["full_attention"] * whole + ["sliding_attention"] * layers
    for kind in types:
        if kind not in ("full_attention", "sliding_attention"):
            raise InvalidModel(f"{source}: layers of {kind} are not supported")
    windows = tuple(window * (kind[0] == "s") for kind in types[:layers])
    return windows if any(windows) else ()


def _rope(file: ConfigJson, source: str) -> RopeConfig:
    given = file.rope_parameters or file.rope_scaling or RopeJson()
    theta = given.rope_theta or file.rope_theta or 10_000.0
    kind = given.rope_type or given.type or "default"
    if given.partial_rotary_factor != 1.0:
        raise InvalidModel(f"{source}: partial_rotary_factor is not supported")
    if kind not in ("default", "linear", "llama3"):
        raise InvalidModel(
            f"{source}: rope scaling {kind!r} is not supported, only linear and llama3"
        )
    return RopeConfig(
        theta=theta,
        kind=kind,
        factor=given.factor,
        low_freq_factor=given.low_freq_factor,
        high_freq_factor=given.high_freq_factor,
        original_context=given.original_max_position_embeddings,
    )
