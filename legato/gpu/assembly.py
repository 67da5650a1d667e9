"""Puts a runner together from a checkpoint and settings."""

import torch

from ..protocol.errors import InvalidSetting
from ..protocol.steps import RunnerLimits
from .attention import KvCache, choose_attention
from .checkpoint import Checkpoint, ModelConfig
from .limits import (
    build_cache,
    cell_bytes,
    choose_context,
    find_geometry,
    find_limits,
)
from .machine.processor import usable_cores
from .memory import size_pool
from .model import Decoder, Forward
from .model.native_decoder import NativeDecoder
from .model.weights import Progress
from .parallel.group import Group
from .parallel.shard import Shard
from .precision import Held, choose_kv_dtype, hold
from .profiled import profiled
from .runner import ModelRunner
from .settings import RunnerSettings
from .torch_runner import TorchRunner

# Of keys and values between native layers: at 32 streams of 128 tokens reading them as
# float32 took longer than reading the weights.
NATIVE_CACHE = torch.float16


def build_runner(
    checkpoint: Checkpoint,
    settings: RunnerSettings | None = None,
    *,
    progress: Progress | None = None,
    group: Group | None = None,
) -> ModelRunner:
    """Load a model, or a rank's part of it, and make it ready to run.

    Args:
        checkpoint: Open; it may be closed afterwards.
        settings: How to run it.
        progress: Called while weights load: the share done, 0 to 1, and of what.
        group: The ranks among which the model is divided, or None.

    Raises:
        InvalidSetting: The settings cannot work here; with the numbers.
        InvalidModel: A parameter cannot be read.
    """
    settings = settings or RunnerSettings()
    shard = Shard(checkpoint.config, group)
    config = shard.config
    device = group.device if group else choose_device(settings.device)
    choose_context(settings, config)  # refuses before anything is loaded
    choose_threads(settings.num_threads, shard.size if device.type == "cpu" else 1)
    held = hold(checkpoint, settings, device, progress, shard)
    rank = group.rank if group else 0
    if device.type == "cuda":
        runner = build_on_cuda(config, held, settings, device, group)
        return profiled(runner, settings, device, rank)
    weights, kernels = held.weights, held.kernels_for(settings.attention)
    dtype = NATIVE_CACHE if kernels else held.dtype
    kv_dtype = choose_kv_dtype(settings.kv_dtype, dtype)
    if kernels:
        check_kv_dtype(settings.kv_dtype)
        config = config.without_windows()
    geometry = find_geometry(config, dtype, kv_dtype)
    chosen = choose_attention(settings.attention, geometry, device, settings.page_size)
    cache, limits, report = reserve(
        *(settings, config, chosen.page_size, kv_dtype),
        *(weights.num_bytes, device, group),
    )
    decoder: Forward
    if kernels:
        threads = torch.get_num_threads()
        decoder = NativeDecoder(config, weights, cache, kernels, limits, threads)
    else:
        attention = chosen.build(cache, geometry)
        decoder = Decoder(config, weights, attention, limits.max_context)
    runner = TorchRunner(decoder, cache, limits, report + held.report, group)
    return profiled(runner, settings, device, rank)


def check_kv_dtype(name: str) -> None:
    """Refuse what the compiled kernels do not read.

    Raises:
        InvalidSetting: Says what does.
    """
    if name != "auto":
        raise InvalidSetting(
            f"kv_dtype {name} is not for the compiled kernels; choose dtype float32 or "
            "attention paged, or kv_dtype auto"
        )


def build_on_cuda(
    config: ModelConfig,
    held: Held,
    settings: RunnerSettings,
    device: torch.device,
    group: Group | None,
) -> ModelRunner:
    """Make a runner for a CUDA device.

    Raises:
        InvalidSetting: There is no room for what was asked for; with the numbers.
    """
    # Only here: a start on a CPU does not wait for what it never uses.
    from .cuda import CudaDevice, build_stream_runner

    return build_stream_runner(config, held, settings, CudaDevice(device), group)


def reserve(
    settings: RunnerSettings,
    config: ModelConfig,
    page_size: int,
    dtype: torch.dtype,
    weight_bytes: int,
    device: torch.device,
    group: Group | None,
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
        share=settings.kv_share,
        sharers=group.size if group and device.type == "cpu" else 1,
    )
    if group is not None:
        pool = pool.shared(group)
    limits = find_limits(settings, config, pool, page_size, page_bytes, device)
    return build_cache(config, page_size, pool, dtype, device), limits, pool.report


def choose_device(name: str) -> torch.device:
    """Resolve a device's name.

    Raises:
        InvalidSetting: There is no CUDA device.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise InvalidSetting("device is cuda, but torch finds none; use device cpu")
    return torch.device("cuda" if has_cuda and name != "cpu" else "cpu")


def choose_threads(num_threads: int, sharers: int) -> None:
    """Set the threads of torch's operators on a CPU.

    Args:
        num_threads: For all sharers together; 0 leaves torch's choice, as far as there
            are cores for all.
        sharers: Processes that compute at once.
    """
    if num_threads:
        torch.set_num_threads(max(1, num_threads // sharers))
    elif sharers > 1:
        # From the cores, not from what is set: a rank that is built again would
        # otherwise get less each time.
        share = max(1, usable_cores() // sharers)
        torch.set_num_threads(min(torch.get_num_threads(), share))
