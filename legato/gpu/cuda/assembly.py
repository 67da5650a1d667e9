"""Puts a stream runner together: measures a step, sizes the pool, captures graphs."""

import logging

import msgspec
import numpy as np
import torch

from ...protocol.errors import InvalidSetting
from ...protocol.steps import RunnerLimits
from ..attention import AttentionBatch, Availability, KvCache, choose_attention
from ..attention.backend import AttentionBackend, CapturableAttention
from ..checkpoint import ModelConfig
from ..limits import (
    STEP_TOKENS,
    build_cache,
    cell_bytes,
    choose_context,
    find_geometry,
    find_limits,
)
from ..memory import PoolSize, mib, size_pool
from ..model import Decoder
from ..parallel.group import Group
from ..precision import Held, choose_kv_dtype
from ..settings import RunnerSettings
from ..tables import Ints
from .device import Device
from .graphs import StepGraphs, decode_sizes
from .inputs import Shape, StepInputs
from .program import PROGRAMS
from .runner import Machine, StreamRunner
from .sampler import DeviceSampler

log = logging.getLogger(__name__)


def build_stream_runner(
    config: ModelConfig,
    held: Held,
    settings: RunnerSettings,
    device: Device,
    group: Group | None = None,
) -> StreamRunner:
    """Make a runner of weights that are on the device already.

    Args:
        config: The model's shape, or of a rank's part of it.
        held: Its weights, not packed.
        settings: How to run it.
        device: Where.
        group: The ranks that run the same plans, or None.

    Raises:
        InvalidSetting: The settings cannot work here; with the numbers.
    """
    try:
        return _Building(config, held, settings, device, group).build()
    except torch.OutOfMemoryError as error:
        raise InvalidSetting(
            f"the device ran out of memory beside {mib(held.weights.num_bytes)} of "
            f"weights, with {mib(device.free_bytes())} free; lower max_step_tokens or "
            "num_slots, or choose a smaller model"
        ) from error


class _Building:
    def __init__(
        self,
        config: ModelConfig,
        held: Held,
        settings: RunnerSettings,
        device: Device,
        group: Group | None,
    ) -> None:
        where = device.torch_device
        self.config, self.held, self.settings = config, held, settings
        self.device, self.group = device, group
        self.kv_dtype = choose_kv_dtype(settings.kv_dtype, held.dtype)
        self.geometry = find_geometry(config, held.dtype, self.kv_dtype)
        self.chosen: Availability = choose_attention(
            settings.attention, self.geometry, where, settings.page_size
        )
        self.page_size = self.chosen.page_size
        self.page_bytes = self.page_size * cell_bytes(config, self.kv_dtype)
        self.most_tokens = settings.max_step_tokens or STEP_TOKENS[where.type]

    def build(self) -> StreamRunner:
        rows = self.settings.num_slots
        spare = RunnerLimits(
            num_slots=rows,
            num_pages=1,
            page_size=self.page_size,
            max_context=choose_context(self.settings, self.config),
            max_step_tokens=self.most_tokens,
            vocab_size=self.config.vocab_size,
            page_bytes=self.page_bytes,
        )
        sampler = DeviceSampler(spare, rows, self.device, self.group)
        inputs = StepInputs(spare, Shape(rows, max(decode_sizes(rows))), self.device)
        self.device.settle()
        step_bytes = self._measure(spare, sampler, inputs)
        pool = self._size(step_bytes)
        limits = find_limits(
            *(self.settings, self.config, pool, self.page_size, self.page_bytes),
            self.device.torch_device,
        )
        limits = msgspec.structs.replace(limits, max_step_tokens=self.most_tokens)
        # One page more than the planner knows, for padding rows.
        cache = self._cache(PoolSize(pool.num_pages + 1, pool.report))
        decoder, graphs = self._capture(limits, cache, sampler, inputs)
        machine = Machine(decoder, cache, sampler, inputs, graphs)
        report = "; ".join(
            [
                pool.report,
                f"a step {mib(step_bytes)}, sampling {mib(sampler.num_bytes)}",
                graphs.report,
                f"attention {self.chosen.name}: {self.chosen.reason}",
            ]
        )
        return StreamRunner(self.device, machine, limits, report)

    def _size(self, step_bytes: int) -> PoolSize:
        size = size_pool(
            kv_bytes=self.settings.kv_bytes,
            page_bytes=self.page_bytes,
            page_size=self.page_size,
            num_slots=self.settings.num_slots,
            max_context=choose_context(self.settings, self.config),
            weight_bytes=self.held.weights.num_bytes,
            device=self.device.torch_device,
            share=self.settings.kv_share,
            free=self.device.free_bytes(),
            # Once for steps as they come, once for the graphs' own memory.
            step_bytes=2 * step_bytes,
        )
        return size if self.group is None else size.shared(self.group)

    def _cache(self, pool: PoolSize) -> KvCache:
        where = self.device.torch_device
        return build_cache(self.config, self.page_size, pool, self.kv_dtype, where)

    def _decoder(self, attention: AttentionBackend, max_context: int) -> Decoder:
        return Decoder(self.config, self.held.weights, attention, max_context)

    def _measure(
        self, limits: RunnerLimits, sampler: DeviceSampler, inputs: StepInputs
    ) -> int:
        """Run the largest step there can be, all in one page; say what it took."""
        attention = self.chosen.build(self._cache(PoolSize(1, "")), self.geometry)
        decoder = self._decoder(attention, limits.max_context)
        rows = limits.num_slots
        counts = _shares(self.most_tokens, rows, limits.max_context)
        pages = -(-int(counts.max()) // self.page_size)

        def work() -> None:
            batch = AttentionBatch.of(
                *(np.zeros_like(counts), counts),
                np.zeros((len(counts), pages), np.int64),
                page_size=self.page_size,
                device=self.device.torch_device,
            )
            ids = torch.zeros_like(batch.positions)
            lasts = torch.asarray(counts.cumsum() - 1).to(ids.device)
            logits = decoder.forward(ids, batch, lasts)
            sampler.logits[: len(logits)].copy_(logits)
            del logits
            inputs.pad(Shape(rows, 0))
            sampler.sample(PROGRAMS[-1], inputs.rows(rows))

        return self.device.peak_bytes(work)

    def _capture(
        self,
        limits: RunnerLimits,
        cache: KvCache,
        sampler: DeviceSampler,
        inputs: StepInputs,
    ) -> tuple[Decoder, StepGraphs]:
        attention = self.chosen.build(cache, self.geometry)
        decoder = self._decoder(attention, limits.max_context)
        rows, device = limits.num_slots, self.device
        graphs = StepGraphs(decoder, sampler, inputs, rows, device)
        if isinstance(attention, CapturableAttention):
            device.settle()
            most_pages = -(-limits.max_context // limits.page_size)
            graphs.capture(attention, most_pages, spare_page=limits.num_pages)
            for line in graphs.table():
                log.info("%s", line)
        return decoder, graphs


def _shares(tokens: int, rows: int, most: int) -> Ints:
    """Deal a step's tokens to rows, as evenly as they go, at most so many to each."""
    rows = min(tokens, rows)
    counts = np.full(rows, tokens // rows, np.int64)
    counts[: tokens % rows] += 1
    return counts.clip(max=most)
