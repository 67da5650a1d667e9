"""Transformers' continuous batching on the same device, shape and load."""

import importlib
import time
from typing import Any

import torch

from legato.gpu.checkpoint import ModelConfig


def transformers_tokens_s(
    config: ModelConfig, device: torch.device, prompts: list[list[int]], count: int
) -> float | str:
    """Tokens a second, or why there is no such number."""
    try:
        library: Any = importlib.import_module("transformers")
    except ImportError:
        return "transformers is not installed"
    try:
        model = _model(library, config, device)
        asked = library.GenerationConfig(
            max_new_tokens=count, do_sample=False, eos_token_id=-1, use_cuda_graph=True
        )
        model.generate_batch(inputs=prompts[:2], generation_config=asked)
        begun_s = time.perf_counter()
        answers = model.generate_batch(inputs=prompts, generation_config=asked)
        took_s = time.perf_counter() - begun_s
    except Exception as error:  # it is young: whatever fails there is its result
        return f"transformers failed: {type(error).__name__}: {error}"
    return sum(len(one.generated_tokens) for one in answers.values()) / took_s


def _model(library: Any, config: ModelConfig, device: torch.device) -> Any:
    kind = library.Qwen3Config if config.qk_norm else library.LlamaConfig
    made = kind(
        hidden_size=config.hidden,
        intermediate_size=config.ffn,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_context,
        tie_word_embeddings=config.tied_embeddings,
    )
    with torch.device(device):
        model = library.AutoModelForCausalLM.from_config(
            made, dtype=torch.bfloat16, attn_implementation="sdpa_paged"
        )
    return model.eval()
