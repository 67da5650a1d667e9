"""Which attention backend runs, by name or by what is there."""

from collections.abc import Callable

from ...protocol.errors import InvalidSetting
from .backend import AttentionBackend
from .cache import KvCache
from .native import native_or
from .paged import PagedAttention
from .reference import ReferenceAttention

# name: (builder, devices it runs on), the fastest first.
ATTENTION_BACKENDS: dict[
    str, tuple[Callable[[KvCache, int], AttentionBackend], tuple[str, ...]]
] = {
    "paged": (PagedAttention, ("cpu",)),
    # After paged: who did not ask for kernels need not wait for a compiler.
    "native": (native_or(PagedAttention), ("cpu",)),
    "reference": (ReferenceAttention, ("cpu", "cuda")),
}


def choose_attention(name: str, cache: KvCache, num_heads: int) -> AttentionBackend:
    """Build a backend over a cache.

    Raises:
        InvalidSetting: No backend has the name, or it does not run on the device.
    """
    device = cache.keys.device.type
    fit = [known for known, (_, on) in ATTENTION_BACKENDS.items() if device in on]
    if name not in ("auto", *fit):
        raise InvalidSetting(
            f"attention {name!r} does not run on {device}; choose auto or "
            f"{' or '.join(fit)}"
        )
    builder, _ = ATTENTION_BACKENDS[fit[0] if name == "auto" else name]
    return builder(cache, num_heads)
