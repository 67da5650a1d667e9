"""A checkpoint in a GGUF file: configuration, names and layouts made canonical."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from ...protocol.errors import InvalidModel
from ...protocol.models import TextSource
from .blocks import SIMPLE, Blocks, GgufType, dequantize
from .config import ModelConfig, RopeConfig, check_architecture
from .gguf_file import GgufFile, TensorEntry
from .gguf_text import gguf_text
from .parameters import EMBEDDING, FINAL_NORM, HEAD, ROPE_FACTORS, check_parameters
from .part import Part

FLOATS = {
    GgufType.F32: torch.float32,
    GgufType.F16: torch.float16,
    GgufType.BF16: torch.bfloat16,
}
WHOLE_NAMES = {
    "token_embd.weight": EMBEDDING,
    "output.weight": HEAD,
    "output_norm.weight": FINAL_NORM,
    "rope_freqs.weight": ROPE_FACTORS,
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GgufCheckpoint:
    """An open GGUF file.

    Args:
        path: The file.
        name: What the model is called.
        defaults: Recommended sampling, where the file says nothing.

    Raises:
        InvalidModel: Broken, incomplete or not supported.
    """

    def __init__(
        self, path: Path, *, name: str, defaults: Mapping[str, float] | None = None
    ) -> None:
        self.name = name
        self.path = path
        self._text: TextSource | None = None
        self._defaults = dict(defaults or {})
        self._file = GgufFile(path)
        try:
            self._entries = {
                canonical_name(entry.name): entry
                for entry in self._file.tensors.values()
            }
            self.config = read_config(self._file, self._entries)
            shapes = {key: entry.shape for key, entry in self._entries.items()}
            check_parameters(self.config, shapes, str(path))
            for entry in self._entries.values():
                self._stored(entry)
        except InvalidModel:
            self.close()
            raise

    @property
    def text(self) -> TextSource:
        """Vocabulary, template, ends; read once."""
        if self._text is None:
            text = gguf_text(self._file.metadata, str(self.path))
            defaults = self._defaults | text.defaults
            self._text = msgspec.structs.replace(text, defaults=defaults)
        return self._text

    def parameter(self, name: str, part: Part | None = None) -> torch.Tensor:
        """Read one parameter; quantized ones are dequantized to float32.

        All of it, and only then is a part taken: blocks lie across columns, and
        queries and keys are in another order.

        Raises:
            InvalidModel: The file is cut short.
        """
        entry = self._entries[name]
        kind, stored = self._stored(entry)
        if kind in FLOATS:
            # A copy: torch has no read-only tensors.
            weight = torch.frombuffer(bytearray(stored), dtype=FLOATS[kind])
        else:
            weight = torch.asarray(dequantize(stored, kind))
        whole: torch.Tensor = self._half_split(name, weight.view(entry.shape))
        return whole if part is None else whole[part.slices].clone()

    def blocks(self, name: str) -> Blocks | None:
        """View a matrix in the blocks it is stored in.

        Returns:
            None, if it is stored in another way than packing knows.

        Raises:
            InvalidModel: The file is cut short.
        """
        entry = self._entries[name]
        kind, stored = self._stored(entry)
        if kind not in SIMPLE or len(entry.shape) != 2:
            return None
        rows = np.frombuffer(stored, np.uint8).reshape(entry.shape[0], -1)
        return Blocks(kind, self._half_split(name, rows))

    def close(self) -> None:
        """Unmap the file. May be called again."""
        self._file.close()

    def _stored(self, entry: TensorEntry) -> tuple[GgufType, memoryview]:
        kind = next((known for known in GgufType if known == entry.type_id), None)
        if kind is None:
            raise InvalidModel(
                f"{self.path}: tensor {entry.name} has GGML type {entry.type_id}, "
                "which is not supported; use a file of "
                f"{', '.join(known.name for known in GgufType)}"
            )
        block, block_bytes = kind.block
        if not entry.shape or entry.shape[-1] % block:
            raise InvalidModel(
                f"{self.path}: tensor {entry.name} of shape {list(entry.shape)} does "
                f"not divide into {kind.name} blocks of {block}"
            )
        num_bytes = math.prod(entry.shape) // block * block_bytes
        return kind, self._file.read(entry.offset, num_bytes)

    def _half_split(self, name: str, rows: Any) -> Any:
        """Undo the interleaving of rotary pairs that GGUF does to Llama's q and k."""
        config = self.config
        kind = name.rpartition("self_attn.")[2].partition("_proj")[0]
        if config.architecture != "llama" or kind not in ("q", "k"):
            return rows
        heads = config.num_heads if kind == "q" else config.num_kv_heads
        pairs = rows.reshape(heads, config.head_dim // 2, 2, *rows.shape[1:])
        return pairs.swapaxes(1, 2).reshape(rows.shape)


def canonical_name(name: str) -> str:
    """Translate a GGUF tensor's name; one without a translation stays."""
    if name in WHOLE_NAMES:
        return WHOLE_NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in LAYER_NAMES:
        return f"model.layers.{parts[1]}.{LAYER_NAMES[parts[2]]}.{parts[3]}"
    return name


def read_config(file: GgufFile, found: dict[str, TensorEntry]) -> ModelConfig:
    """Make a configuration of GGUF metadata.

    Raises:
        InvalidModel: A key is missing or of a wrong type, or asks for what is not
            supported.
    """
    values = _Values(file)
    architecture = values.get("general.architecture", str)
    check_architecture(architecture, str(file.path))
    values.prefix = f"{architecture}."
    if values.get("expert_count", int, 0):
        raise InvalidModel(f"{file.path}: mixtures of experts are not supported")
    hidden = values.get("embedding_length", int)
    num_heads = values.get("attention.head_count", int)
    embedding = found.get(EMBEDDING)
    head_dim = values.get("attention.key_length", int, hidden // max(num_heads, 1))
    if values.get("rope.dimension_count", int, head_dim) != head_dim:
        raise InvalidModel(f"{file.path}: rotary positions on part of a head")
    window = values.get("attention.sliding_window", int, 0)
    layer = "model.layers.0.self_attn."
    num_layers = values.get("block_count", int)
    config = ModelConfig(
        architecture=architecture,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=values.get("attention.head_count_kv", int, num_heads),
        head_dim=head_dim,
        ffn=values.get("feed_forward_length", int),
        vocab_size=embedding.shape[0] if embedding and embedding.shape else 0,
        max_context=values.get("context_length", int),
        norm_eps=values.get("attention.layer_norm_rms_epsilon", float),
        rope=_read_rope(values, found),
        tied_embeddings=HEAD not in found,
        qkv_bias=f"{layer}q_proj.bias" in found,
        output_bias=f"{layer}o_proj.bias" in found,
        qk_norm=architecture == "qwen3",
        windows=(window,) * num_layers if window else (),
    )
    config.check(str(file.path))
    return config


def _read_rope(values: "_Values", found: dict[str, TensorEntry]) -> RopeConfig:
    theta = values.get("rope.freq_base", float, 10_000.0)
    if ROPE_FACTORS in found:
        return RopeConfig(theta=theta, kind="factors")
    kind = values.get("rope.scaling.type", str, "none")
    if kind == "none":
        return RopeConfig(theta=theta)
    if kind != "linear":
        raise InvalidModel(
            f"{values.file.path}: rope scaling {kind!r} is not supported, only linear "
            "and Llama 3's"
        )
    factor = values.get("rope.scaling.factor", float)
    return RopeConfig(theta=theta, kind="linear", factor=factor)


class _Values:
    """Typed look-ups in the metadata."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.prefix = ""

    def get(self, key: str, kind: type[Any], default: Any = None) -> Any:
        value = self.file.metadata.get(self.prefix + key, default)
        if value is None or isinstance(value, bool) or not isinstance(value, kind):
            raise InvalidModel(
                f"{self.file.path}: metadata {self.prefix + key} is "
                f"{'missing' if value is None else 'not ' + kind.__name__}; convert "
                "the model again"
            )
        return value
