"""Puts a runner together from a checkpoint and settings."""

import torch

from ..protocol.errors import InvalidSetting
from ..protocol.steps import RunnerLimits
from .attention import Geometry, KvCache, choose_attention
from .checkpoint import Checkpoint, ModelConfig
from .memory import PoolSize, size_pool
from .model import Decoder, Forward
from .model.native_decoder import NativeDecoder
from .model.weights import Progress
from .precision import hold
from .runner import ModelRunner
from .settings import RunnerSettings
from .torch_runner import TorchRunner

# Of keys and values between native layers: at 32 streams of 128 tokens reading them as
# float32 took longer than reading the weights.
NATIVE_CACHE = torch.float16
# Positions of a step where nobody chose: as many as do not let running streams wait
# for long, and enough that weights are worth their reading.
STEP_TOKENS = {"cpu": 128, "cuda": 512}


def build_runner(
    checkpoint: Checkpoint,
    settings: RunnerSettings | None = None,
    *,
    progress: Progress | None = None,
) -> ModelRunner:
    """Load a model and make it ready to run.

    Args:
        checkpoint: Open; it may be closed afterwards.
        settings: How to run it.
        progress: Called while weights load: the share done, 0 to 1, and of what.

    Raises:
        InvalidSetting: The settings cannot work here; with the numbers.
        InvalidModel: A parameter cannot be read.
    """
    settings = settings or RunnerSettings()
    config = checkpoint.config
    device = choose_device(settings.device)
    choose_context(settings, config)  # refuses before anything is loaded
    if settings.num_threads:
        torch.set_num_threads(settings.num_threads)
    held = hold(checkpoint, settings, device, progress)
    weights, kernels = held.weights, held.kernels_for(settings.attention)
    dtype = NATIVE_CACHE if kernels else held.dtype
    if kernels:
        config = config.without_windows()
    geometry = find_geometry(config, dtype)
    chosen = choose_attention(settings.attention, geometry, device, settings.page_size)
    cache, limits, report = reserve(
        settings, config, chosen.page_size, dtype, weights.num_bytes, device
    )
    decoder: Forward
    if kernels:
        threads = torch.get_num_threads()
        decoder = NativeDecoder(config, weights, cache, kernels, limits, threads)
    else:
        attention = chosen.build(cache, geometry)
        decoder = Decoder(config, weights, attention, limits.max_context)
    report += held.report
    if device.type != "cpu":
        report += f"; attention {chosen.name}: {chosen.reason}"
    return TorchRunner(decoder, cache, limits, report)


def reserve(
    settings: RunnerSettings,
    config: ModelConfig,
    page_size: int,
    dtype: torch.dtype,
    weight_bytes: int,
    device: torch.device,
) -> tuple[KvCache, RunnerLimits, str]:
    """Size the pool and reserve it; also say what a runner with it can hold, and why.

    Raises:
        InvalidSetting: There is no room for what was asked for; with the numbers.
    """
    page_bytes = page_size * cell_bytes(config, dtype)
    pool = size_pool(
        kv_bytes=settings.kv_bytes,
        page_bytes=page_bytes,
        page_size=page_size,
        num_slots=settings.num_slots,
        max_context=choose_context(settings, config),
        weight_bytes=weight_bytes,
        device=device,
    )
    limits = find_limits(settings, config, pool, page_size, page_bytes, device)
    return build_cache(config, page_size, pool, dtype, device), limits, pool.report


def find_geometry(config: ModelConfig, dtype: torch.dtype) -> Geometry:
    """Say what a model asks of attention."""
    heads = config.num_heads, config.num_kv_heads, config.head_dim
    return Geometry(*heads, dtype, config.windows)


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
    """Say what a runner with a pool can hold.

    Raises:
        InvalidSetting: Less than the context that was asked for.
    """
    room = pool.num_pages * page_size
    if settings.max_context > room:
        raise InvalidSetting(
            f"max_context is {settings.max_context}, but the pages hold {room} tokens "
            f"({pool.report}); lower it, or raise kv_bytes"
        )
    return RunnerLimits(
        num_slots=settings.num_slots,
        num_pages=pool.num_pages,
        page_size=page_size,
        max_context=min(choose_context(settings, config), room),
        max_step_tokens=settings.max_step_tokens or STEP_TOKENS[device.type],
        vocab_size=config.vocab_size,
        page_bytes=page_bytes,
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


def choose_device(name: str) -> torch.device:
    """Resolve a device's name.

    Raises:
        InvalidSetting: There is no CUDA device.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise InvalidSetting("device is cuda, but torch finds none; use device cpu")
    return torch.device("cuda" if has_cuda and name != "cpu" else "cpu")


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
