"""What a runner can hold: its geometry, its pool, its limits."""

import logging

import torch

from ..protocol.errors import InvalidSetting
from ..protocol.steps import RunnerLimits
from .attention import Geometry, KvCache
from .checkpoint import ModelConfig
from .memory import MIB, PoolSize
from .settings import RunnerSettings

log = logging.getLogger(__name__)

# Positions of a step where nobody chose: as many as do not let running streams wait
# for long, and enough that weights are worth their reading.
STEP_TOKENS = {"cpu": 128, "cuda": 512}
# On a CPU a decode, with the head behind it, takes about as long as two tokens of a
# prompt.
DECODE_WEIGHT = {"cpu": 2.0, "cuda": 0.0}


def find_geometry(
    config: ModelConfig, dtype: torch.dtype, kv_dtype: torch.dtype | None = None
) -> Geometry:
    """Say what a model asks of attention; without a type of its own the cache has its.

    Args:
        config: The model's shape.
        dtype: Of queries, keys and values.
        kv_dtype: Of the cache.
    """
    heads = config.num_heads, config.num_kv_heads, config.head_dim
    return Geometry(*heads, dtype, config.windows, kv_dtype or dtype)


def cell_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Memory of one token's keys and values, over all layers."""
    numbers = config.num_layers * config.num_kv_heads * config.head_dim
    return 2 * numbers * dtype.itemsize


def find_limits(
    settings: RunnerSettings,
    config: ModelConfig,
    pool: PoolSize,
    page_size: int,
    page_bytes: int,
    device: torch.device,
) -> RunnerLimits:
    """Say what a runner with a pool can hold; warn of one that is below the context.

    Raises:
        InvalidSetting: Less than the context that was asked for.
    """
    room, context = pool.num_pages * page_size, choose_context(settings, config)
    if settings.max_context > room:
        raise InvalidSetting(
            f"max_context is {settings.max_context}, but the pages hold {room} tokens "
            f"({pool.report}); lower it, or raise kv_bytes"
        )
    if context > room:
        least = -(-context // page_size) * page_bytes
        log.warning(
            "the key-value cache holds %d tokens, but the context has %d: prompt and "
            "answer together are cut to %d; raise --kv-mib to %d (kv_bytes), or set "
            "--max-context to at most %d (max_context)",
            *(room, context, room, -(-least // MIB), room),
        )
    return RunnerLimits(
        num_slots=settings.num_slots,
        num_pages=pool.num_pages,
        page_size=page_size,
        max_context=min(context, room),
        max_step_tokens=settings.max_step_tokens or STEP_TOKENS[device.type],
        vocab_size=config.vocab_size,
        page_bytes=page_bytes,
        decode_weight=DECODE_WEIGHT[device.type],
    )


def build_cache(
    config: ModelConfig,
    page_size: int,
    pool: PoolSize,
    dtype: torch.dtype,
    device: torch.device,
) -> KvCache:
    """Reserve the pool.

    Raises:
        InvalidSetting: The device has no room for it after all.
    """
    try:
        return KvCache(
            num_layers=config.num_layers,
            num_pages=pool.num_pages,
            page_size=page_size,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=dtype,
            device=device,
        )
    except (MemoryError, RuntimeError) as error:
        raise InvalidSetting(
            f"no room for the pages ({pool.report}); set kv_bytes lower"
        ) from error


def choose_context(settings: RunnerSettings, config: ModelConfig) -> int:
    """Resolve the most positions of a sequence.

    Raises:
        InvalidSetting: The model was not made for so many.
    """
    if settings.max_context > config.max_context:
        raise InvalidSetting(
            f"max_context is {settings.max_context}, but the model is made for "
            f"{config.max_context}; choose at most that, or 0"
        )
    return settings.max_context or config.max_context
