"""Every setting of an engine, in one flat place.

The engine unpacks it into constructor arguments; no room sees the whole of it.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..actors.restarts import RestartLimit
from ..actors.scheduling.batching import Batching, Continuous
from ..actors.scheduling.settings import PlannerSettings
from ..gpu.settings import RunnerSettings
from ..protocol.errors import InvalidSetting, UnknownOption
from ..protocol.options import OptionsMeta


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, metaclass=OptionsMeta):
    """Settings of an engine; each has a default that works.

    Args:
        placement: Where scheduler and device live: in a ``thread`` of this process,
            or in a ``process`` of their own, apart from this one's GIL and crashes.
        device: ``auto``, ``cpu`` or ``cuda``.
        dtype: ``auto``, ``float32``, ``bfloat16``, ``float16``, or ``int8`` for 8-
            and 4-bit weights on a CPU, which is ``auto`` where kernels can be
            compiled for it.
        activation_bits: Of activations in products with such weights: 15, or 8 where
            weights have 4, which is quicker; 0 is 8.
        kv_dtype: ``auto``, or ``fp8`` for a key-value cache of 8 bits a number.
        attention: ``auto`` or a backend's name.
        num_threads: Threads for the kernels on a CPU; 0 chooses.
        page_size: Tokens in a page of the key-value cache; 0 is what suits the
            attention backend.
        num_slots: Sequences on the device at once.
        max_context: Most positions of a sequence; 0 is the model's own limit.
        max_step_tokens: Most positions one step computes: less means shorter gaps for
            running streams while a prompt is computed. 0 is what suits the device.
        kv_bytes: Memory of the page pool, on each rank; 0 sizes it from what is free.
        kv_share: The share of what is free that it may take, 0 to 1; 0 chooses.
        tensor_parallel: Ranks among which the model is divided: CUDA devices, or
            processes that share the CPU.
        profile: A file for a Chrome trace of some steps by torch's profiler; "" is
            none.
        profile_from: Steps before the first of them.
        profile_steps: How many.
        depth: Steps under way: 2 keeps one waiting while one runs.
        prefix_cache: Share the pages of common prompt beginnings.
        batching: The strategy; changeable later with ``Engine.set_batching``.
        max_requests: Streams open at once, those being tokenized included; beyond
            it requests are refused with ``Overloaded``.
        max_waiting_tokens: Most tokens of prompts that wait for their first token, as
            far as their length tells before they are encoded; beyond it requests are
            refused with ``Overloaded``.
        max_prompt_chars: Longest prompt in characters, refused before any work.
        restart_intensity: Restarts of a failed device (or actor) in the period below.
        restart_period_s: The period.
        step_timeout_s: A core whose steps do not end for so long hangs: a process is
            killed and replaced, in a thread it is waited for while requests are
            refused. Longer than the longest step there can be; 0 waits for ever.

    Raises:
        UnknownOption: No such setting; names the nearest.
        InvalidSetting: A time that is none.
    """

    placement: Literal["thread", "process"] = "thread"
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
    depth: int = 2
    prefix_cache: bool = True
    batching: Batching = Continuous()
    max_requests: int = 1024
    max_waiting_tokens: int = 1_048_576
    max_prompt_chars: int = 4_000_000
    restart_intensity: int = 3
    restart_period_s: float = 60.0
    step_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        if not (self.step_timeout_s == 0 or 1 <= self.step_timeout_s < math.inf):
            raise InvalidSetting(
                f"step_timeout_s is 0 (never) or at least 1, got {self.step_timeout_s}"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "EngineSettings":
        """Build from loose options.

        Raises:
            UnknownOption: A name that is not a setting, with the nearest one.
            InvalidSetting: A value of the wrong type.
        """
        for name in options:
            if name not in cls.__struct_fields__:
                raise UnknownOption(name, cls.__struct_fields__)
        try:
            return msgspec.convert(dict(options), cls)
        except msgspec.ValidationError as error:
            raise InvalidSetting(f"{error}{hint_of(options)}") from error

    def runner(self) -> RunnerSettings:
        """The execution room's part."""
        return RunnerSettings(
            device=self.device,
            dtype=self.dtype,
            activation_bits=self.activation_bits,
            kv_dtype=self.kv_dtype,
            attention=self.attention,
            num_threads=self.num_threads,
            page_size=self.page_size,
            num_slots=self.num_slots,
            max_context=self.max_context,
            max_step_tokens=self.max_step_tokens,
            kv_bytes=self.kv_bytes,
            kv_share=self.kv_share,
            tensor_parallel=self.tensor_parallel,
            profile=self.profile,
            profile_from=self.profile_from,
            profile_steps=self.profile_steps,
        )

    def planner(self) -> PlannerSettings:
        """The scheduling room's part."""
        return PlannerSettings(
            # The runner's own limit applies as well.
            max_step_tokens=self.max_step_tokens or PlannerSettings().max_step_tokens,
            prefix_cache=self.prefix_cache,
            batching=self.batching,
            depth=self.depth,
        )

    def restarts(self) -> RestartLimit:
        """A fresh count of restarts."""
        return RestartLimit(self.restart_intensity, self.restart_period_s)


def hint_of(options: Mapping[str, Any]) -> str:
    """What to write where msgspec's words do not say it."""
    placement, batching = options.get("placement", "thread"), options.get("batching")
    if placement not in ("thread", "process"):
        return "; placement is 'thread' or 'process'"
    if isinstance(batching, str):
        return f"; write batching={{'type': {batching!r}, …}}, or a strategy's struct"
    return ""
