"""Transformers' continuous batching on the same device, shape and load."""

import importlib.util
import time
from typing import Any

import torch

from legato.gpu.checkpoint import ModelConfig

FLASH = {
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_2": "flash_attn",
}


def transformers_tokens_s(
    config: ModelConfig, device: torch.device, prompts: list[list[int]], count: int
) -> float | str:
    """Tokens a second, or why there is no such number."""
    try:
        library: Any = importlib.import_module("transformers")
    except ImportError:
        return "transformers is not installed"
    model: Any = None
    try:
        model = _model(library, config, device)
        asked = library.GenerationConfig(
            max_new_tokens=count, do_sample=False, eos_token_id=-1
        )
        _answer(model, prompts, asked)  # what it compiles and captures it keeps
        begun_s = time.perf_counter()
        num_tokens = _answer(model, prompts, asked)
        took_s = time.perf_counter() - begun_s
    except Exception as error:  # it is young: whatever fails there is its result
        return f"transformers failed: {type(error).__name__}: {error}"
    finally:
        if model is not None:
            # It keeps most of the device's memory, and a thread.
            model.destroy_cached_continuous_batching_manager()
    if num_tokens != count * len(prompts):
        return f"transformers made {num_tokens} of {count * len(prompts)} tokens"
    return num_tokens / took_s


def _answer(model: Any, prompts: list[list[int]], asked: Any) -> int:
    """Answer all prompts; say how many tokens came."""
    answers = model.generate_batch(
        inputs=prompts,
        generation_config=asked,
        progress_bar=False,
        persistent_manager=True,
        warmup=True,
    )
    return sum(len(one.generated_tokens) for one in answers.values())


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
            made, dtype=torch.bfloat16, attn_implementation=_attention()
        )
    return model.eval()


def _attention() -> str:
    """Its fastest that is there; its graphs go with FlashAttention alone."""
    for name, module in FLASH.items():
        if importlib.util.find_spec(module):
            return name
    return "sdpa"
