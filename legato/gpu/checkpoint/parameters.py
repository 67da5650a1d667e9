"""Every parameter a model has, by its canonical name and shape.

Canonical names are those of the families' own safetensors files.
"""

from collections.abc import Mapping

from ...protocol.errors import InvalidModel
from .config import ModelConfig

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
FINAL_NORM = "model.norm.weight"
ROPE_FACTORS = "rope_factors"


def expected_parameters(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Map each parameter's canonical name to its shape, in the order of use."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, config.hidden)}
    if config.rope.kind == "factors":
        shapes[ROPE_FACTORS] = (config.head_dim // 2,)
    for layer in range(config.num_layers):
        for name, shape in _layer_parameters(config).items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    shapes[FINAL_NORM] = (config.hidden,)
    if not config.tied_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden)
    return shapes


def _layer_parameters(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, ffn = config.hidden, config.ffn
    queries = config.num_heads * config.head_dim
    keys = config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {"input_layernorm.weight": (hidden,)}
    for name, width in (("q", queries), ("k", keys), ("v", keys)):
        shapes[f"self_attn.{name}_proj.weight"] = (width, hidden)
        if config.qkv_bias:
            shapes[f"self_attn.{name}_proj.bias"] = (width,)
        if config.qk_norm and name != "v":
            shapes[f"self_attn.{name}_norm.weight"] = (config.head_dim,)
    shapes["self_attn.o_proj.weight"] = (hidden, queries)
    if config.output_bias:
        shapes["self_attn.o_proj.bias"] = (hidden,)
    shapes["post_attention_layernorm.weight"] = (hidden,)
    shapes["mlp.gate_proj.weight"] = (ffn, hidden)
    shapes["mlp.up_proj.weight"] = (ffn, hidden)
    shapes["mlp.down_proj.weight"] = (hidden, ffn)
    return shapes


def check_parameters(
    config: ModelConfig, found: Mapping[str, tuple[int, ...]], source: str
) -> None:
    """Refuse a checkpoint that lacks a parameter, or has one of a wrong shape.

    Raises:
        InvalidModel: Names the first at fault, and how many more there are.
    """
    expected = expected_parameters(config)
    missing = [name for name in expected if name not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidModel(
            f"{source}: parameter {missing[0]}{more} is missing; the file is "
            "incomplete, download it again"
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise InvalidModel(
                f"{source}: parameter {name} has shape {list(found[name])}, the "
                f"model's configuration asks for {list(shape)}"
            )
