"""What can be chosen about a runner, and what cannot work."""

import msgspec

from ..protocol.errors import InvalidSetting

DEVICES = ("auto", "cpu", "cuda")
CHOSEN_BY_ZERO = (
    "num_threads",
    "page_size",
    "max_context",
    "max_step_tokens",
    "kv_bytes",
)
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
KV_DTYPES = ("auto", "fp8")
ACTIVATION_BITS = (0, 8, 15)


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model runs.

    Args:
        device: ``auto`` is CUDA where there is one.
        dtype: Of weights, activations and cache. ``auto``: ``int8`` on a CPU for
            which there are kernels, bfloat16 where the device computes in it
            natively, else float32. ``int8``, on a CPU: weights of 8 bits, or 4 where
            the checkpoint's own are such; activations of 15 or 8 bits in products,
            float32 elsewhere. Where kernels cannot be compiled, or fail their
            self-check, both are as if there were none.
        activation_bits: Of activations in products with such weights. 8, which 0
            stands for: in the layers, where weights have 4 bits; 15 elsewhere. 15: in
            all products, as good as float32 and slower.
        kv_dtype: Of keys and values in the cache. ``auto``: as they are computed.
            ``fp8``: numbers of 8 bits (e4m3, unscaled), for backends that read them;
            half the memory of bfloat16, and answers that differ.
        attention: A backend by name; ``auto`` is the fastest that runs here.
        num_threads: Of one operator on a CPU; 0 leaves torch's own choice.
        page_size: Tokens in a page; 0 is what suits the attention backend.
        num_slots: Sequences on the device at once.
        max_context: Most positions a sequence may have; 0 is the model's own limit.
        max_step_tokens: Most positions a step may compute; 0 is 512 on CUDA and 128
            on a CPU, where that many take some 0.2 s.
        kv_bytes: Memory for pages, on each rank; 0 is sized from what is free.
        kv_share: Of what is free after the weights, so much is for pages and steps,
            0 to 1; 0 is 0.9 on CUDA and 0.5 on a CPU. Without effect if ``kv_bytes``
            says it.
        tensor_parallel: Ranks among which the model is divided, each on a CUDA device
            of its own, or all on the CPU.
        profile: A file for a Chrome trace of some steps by torch's profiler, which is
            written once they are done or the runner is closed; "" is none. It
            delays the steps around it by seconds.
        profile_from: Steps before the first of them.
        profile_steps: How many.

    Raises:
        InvalidSetting: A value that no runner can have, with the number.
    """

    device: str = "auto"
    dtype: str = "auto"
    activation_bits: int = 0
    kv_dtype: str = "auto"
    attention: str = "auto"
    num_threads: int = 0
    page_size: int = 0
    num_slots: int = 64
    max_context: int = 0
    max_step_tokens: int = 0
    kv_bytes: int = 0
    kv_share: float = 0.0
    tensor_parallel: int = 1
    profile: str = ""
    profile_from: int = 100
    profile_steps: int = 20

    def __post_init__(self) -> None:
        names = ("device", DEVICES), ("dtype", DTYPES), ("kv_dtype", KV_DTYPES)
        for name, known in names:
            if getattr(self, name) not in known:
                raise InvalidSetting(
                    f"{name} {getattr(self, name)!r} is unknown; choose one of "
                    f"{', '.join(known)}"
                )
        if self.activation_bits not in ACTIVATION_BITS:
            raise InvalidSetting(
                f"activation_bits is {self.activation_bits}; choose 8 or 15, or 0 for 8"
            )
        for name in ("num_slots", "tensor_parallel", "profile_steps"):
            if getattr(self, name) < 1:
                raise InvalidSetting(f"{name} is {getattr(self, name)}, at least 1")
        if self.tensor_parallel > 1 and self.dtype == "int8":
            raise InvalidSetting(
                f"dtype int8 runs on one rank alone; with tensor_parallel "
                f"{self.tensor_parallel} choose auto, float32 or bfloat16"
            )
        for name in CHOSEN_BY_ZERO:
            if getattr(self, name) < 0:
                raise InvalidSetting(
                    f"{name} is {getattr(self, name)}; 0 chooses it for you"
                )
        if self.profile_from < 0:
            raise InvalidSetting(f"profile_from is {self.profile_from}, at least 0")
        if not 0 <= self.kv_share <= 1:
            raise InvalidSetting(f"kv_share is {self.kv_share}, from 0 to 1")
