"""In which numbers a model is held: packed by kernels, or one of torch's types."""

import logging
from dataclasses import dataclass
from pathlib import Path

import torch

from ..protocol.errors import InvalidSetting
from .attention.cache import FP8
from .checkpoint import Checkpoint
from .model import DecoderWeights, load_weights
from .model.packed import load_packed_weights
from .model.self_check import find_fault
from .model.weights import Progress
from .native import Kernels, KernelsUnavailable, load_kernels
from .parallel.shard import Shard
from .settings import RunnerSettings

log = logging.getLogger(__name__)

NATIVE_BF16 = ("avx512_bf16", "amx_bf16")


@dataclass(frozen=True)
class Held:
    """A model's weights in memory.

    Args:
        weights: Packed where there are kernels.
        dtype: Of the cache and of what is not packed.
        kernels: They, why there are none, or None where nobody looked.
    """

    weights: DecoderWeights
    dtype: torch.dtype
    kernels: Kernels | KernelsUnavailable | None

    def kernels_for(self, attention: str) -> Kernels | None:
        """The kernels, where they compute whole steps with a backend of this name."""
        is_theirs = attention in ("auto", "native")
        return self.kernels if isinstance(self.kernels, Kernels) and is_theirs else None

    @property
    def report(self) -> str:
        """The end of a line about the runner."""
        if isinstance(self.kernels, KernelsUnavailable):
            return f"; without native kernels: {self.kernels}"
        return "; native kernels" if self.kernels else ""


def hold(
    checkpoint: Checkpoint,
    settings: RunnerSettings,
    device: torch.device,
    progress: Progress | None,
    shard: Shard | None = None,
) -> Held:
    """Load weights, packed where there are kernels that work.

    Args:
        checkpoint: Open.
        settings: Which numbers, and among how many ranks.
        device: Where the weights go.
        progress: Called while they load.
        shard: Which part of them; None is all.

    Raises:
        InvalidSetting: The device does not compute in the type.
        InvalidModel: A parameter cannot be read.
    """
    kernels = find_kernels(settings, device)
    if isinstance(kernels, Kernels):
        packed = pack(checkpoint, kernels, settings.activation_bits, progress)
        if isinstance(packed, DecoderWeights):
            return Held(packed, torch.float32, kernels)
        kernels = packed
    dtype = choose_dtype(settings.dtype, device)
    weights = load_weights(checkpoint, dtype, device, progress=progress, shard=shard)
    return Held(weights, dtype, kernels)


def find_kernels(
    settings: RunnerSettings, device: torch.device
) -> Kernels | KernelsUnavailable | None:
    """Find the native kernels, where the settings ask for them or leave it open.

    Raises:
        InvalidSetting: The device has none.
    """
    if settings.dtype == "int8" and device.type != "cpu":
        raise InvalidSetting(f"dtype int8 does not run on {device.type}; use bfloat16")
    if settings.dtype not in ("auto", "int8") or device.type != "cpu":
        return None
    if settings.tensor_parallel > 1:
        return None
    kernels = load_kernels()
    if settings.dtype == "auto" and isinstance(kernels, Kernels):
        return kernels if kernels.is_vectorised else None
    return kernels


def pack(
    checkpoint: Checkpoint,
    kernels: Kernels,
    activation_bits: int,
    progress: Progress | None,
) -> DecoderWeights | KernelsUnavailable:
    """Pack weights and try the kernels on them.

    Returns:
        The weights, or what is wrong with the kernels.

    Raises:
        InvalidModel: A parameter cannot be read.
    """
    threads = torch.get_num_threads()
    packed = load_packed_weights(
        *(checkpoint, kernels),
        num_threads=threads,
        activation_bits=activation_bits,
        progress=progress,
    )
    fault = find_fault(checkpoint, packed, kernels, threads)
    if not fault:
        return packed
    reason = KernelsUnavailable(f"their self-check failed: {fault}")
    log.warning("no native kernels (%s); torch computes instead", reason)
    return reason


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Resolve a type's name, of weights that are not packed.

    ``auto`` is bfloat16 where it is native.
    """
    if name == "auto":
        native = device.type == "cuda" or has_native_bf16()
        name = "bfloat16" if native else "float32"
    dtypes = {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "int8": torch.float32,
    }
    return dtypes[name]


def choose_kv_dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """Resolve the type of keys and values in the cache.

    Args:
        name: As set.
        dtype: Of those that are computed.
    """
    return FP8 if name == "fp8" else dtype


def has_native_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return any(flag in flags.split() for flag in NATIVE_BF16)
