"""A runner for devices that work while the host goes on.

A launch queues a step and returns: inputs by one copy, the forward pass, the sampling,
the results' way back on a stream of their own. The next step's tokens are taken from
where this one's sampling leaves them, so that it is launched before anybody has seen
them.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ...protocol.steps import RunnerLimits, StepPlan
from ..attention import AttentionBatch, KvCache
from ..grammar import Grammars, Matcher
from ..model import Decoder
from ..sampling import Scoring, scored_rows
from ..tables import BlockTables, Layout
from .clock import DeviceClock
from .device import Device, Mark
from .graphs import StepGraphs
from .inputs import Shape, Staged, StepInputs
from .launched import Expected, LaunchedStep, Marks
from .program import Extras
from .sampler import DeviceSampler
from .slot_sampling import Row, pack
from .staging import Berth, Ring
from .tenants import Tenants

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Machine:
    """All that a runner has on its device.

    Args:
        decoder: The model, whose attention works over ``cache``.
        cache: The pool, and a page more than the planner knows.
        sampler: Chooses tokens.
        inputs: What steps read.
        graphs: Captured steps, if any.
    """

    decoder: Decoder
    cache: KvCache
    sampler: DeviceSampler
    inputs: StepInputs
    graphs: StepGraphs


class StreamRunner:
    """Queues steps on a device's streams.

    Args:
        device: Where.
        machine: What is there.
        limits: What it can hold.
        memory_report: How the pool was sized.
    """

    launch_depth = 2

    def __init__(
        self,
        device: Device,
        machine: Machine,
        limits: RunnerLimits,
        memory_report: str,
    ) -> None:
        self.limits = limits
        self.memory_report = memory_report
        self._device = device
        self._machine: Machine | None = machine
        self._tables = BlockTables(limits)
        self._tenants = Tenants(limits.vocab_size)
        sampler = machine.sampler
        results = sampler.outcomes, sampler.reports, sampler.masks
        self._ring = Ring(
            [
                Berth(device, machine.inputs.num_words, *results)
                for _ in range(self.launch_depth + 1)
            ]
        )
        # Everything above was made on torch's own stream, which no other waits for.
        device.settle()
        origin = device.compute.mark()
        origin.wait()
        self._clock = DeviceClock(origin)
        self._last: LaunchedStep | None = None
        self._last_read: Mark = origin

    def equip(self, grammars: Grammars) -> None:
        """Take what slots with a grammar need."""
        self._tenants.grammars = grammars

    def launch(self, plan: StepPlan) -> LaunchedStep:
        """Queue a step.

        Only a step with a grammar's rows makes the host wait, for the tokens before,
        while the device computes what the step does before it samples.

        Raises:
            ValueError: The plan breaks the limits, or the runner was closed.
        """
        launched_s = time.perf_counter()
        machine = self._machine
        if machine is None:
            raise ValueError("the runner was closed")
        if plan.num_tokens > self.limits.max_step_tokens:
            raise ValueError(
                f"{plan.num_tokens} tokens in a step, at most "
                f"{self.limits.max_step_tokens}"
            )
        berth = self._ring.acquire()
        with self._device.phase("legato.open"):
            opened = self._open(machine, plan)
            layout = self._tables.enter(plan)
        bound = self._tenants.bound(plan.sampling_slots)
        shape = self._shape(machine, plan)
        scoring = self._scoring(plan)
        with self._device.phase("legato.stage"):
            places = {place: mask for mask, place in enumerate(bound)}
            staged = machine.inputs.stage(berth, plan, layout, places, opened, shape)
            self._prepare(machine, plan, staged)
        # Not before the host's own work: a device that waits for it is not busy.
        started = self._device.compute.mark()
        with self._device.phase("legato.forward"):
            if plan.num_tokens:
                self._forward(machine, plan, layout, staged, scoring)
        with self._device.phase("legato.sample"):
            rows = self._sample(machine, plan, berth, bound, shape)
        ended = self._device.compute.mark()
        read = self._read_back(machine, plan, berth, ended)
        marks = Marks(launched_s, started, ended, read)
        step = LaunchedStep(
            *(plan.step, rows, berth.outcomes[: len(rows)], berth.reports),
            *(marks, self._last, self._clock, scoring),
        )
        berth.occupant = self._last = step
        self._tenants.launched(step, bound)
        return step

    def close(self) -> None:
        """Free the device's memory. May be called again."""
        machine, self._machine, self._last = self._machine, None, None
        if machine is None:
            return
        self._tables.clear()
        self._tenants.clear()
        machine.graphs.clear()
        del machine
        self._device.release()

    def _open(self, machine: Machine, plan: StepPlan) -> dict[int, Row]:
        opened: dict[int, Row] = {}
        for one in plan.opens:
            self._tables.open(one)
            sampling = self._tenants.open(one)
            machine.sampler.slots.open(one, sampling)
            opened[one.slot] = pack(sampling, self.limits.vocab_size)
        return opened

    def _shape(self, machine: Machine, plan: StepPlan) -> Shape:
        if plan.decodes and not plan.rows:
            return machine.graphs.shape_of(len(plan.decodes))
        rows = machine.graphs.sampling_shape(len(plan.sampling_slots))
        return Shape(rows, plan.num_tokens)

    def _scoring(self, plan: StepPlan) -> Scoring | None:
        scored = scored_rows(plan, self._tenants.num_likeliest)
        return Scoring(scored, self._device.torch_device) if scored else None

    def _prepare(self, machine: Machine, plan: StepPlan, staged: Staged) -> None:
        """Queue what a step does before it computes, if it does anything."""
        if not (plan.opens or plan.copies or len(staged.untouched)):
            return

        def work() -> None:
            if plan.opens:
                machine.sampler.slots.write(staged.opened, staged.numbers)
            machine.cache.copy(plan.copies)
            if len(staged.untouched):
                machine.cache.scrub(staged.untouched)

        self._device.compute.run(work)

    def _forward(
        self,
        machine: Machine,
        plan: StepPlan,
        layout: Layout,
        staged: Staged,
        scoring: Scoring | None,
    ) -> None:
        """Queue the forward pass, which leaves logits in the sampler."""
        compute = self._device.compute
        captured = None if plan.rows else machine.graphs.decodes(len(plan.decodes))
        if captured is not None:
            captured.fill(compute, layout.starts, layout.tables)
            compute.run(captured.graph.replay)
            return

        def work() -> None:
            batch = AttentionBatch.of(
                *(layout.starts, layout.counts, layout.tables),
                page_size=self.limits.page_size,
                device=self._device.torch_device,
            )
            future = machine.sampler.future[staged.sources.clamp(min=0)]
            ids = torch.where(staged.sources < 0, staged.given, future)
            tokens = plan.num_tokens
            logits = machine.decoder.forward(ids[:tokens], batch, staged.lasts, scoring)
            machine.sampler.logits[: len(logits)].copy_(logits)

        compute.run(work)

    def _sample(
        self,
        machine: Machine,
        plan: StepPlan,
        berth: Berth,
        bound: Mapping[int, Matcher],
        shape: Shape,
    ) -> tuple[Expected, ...]:
        """Queue the sampling; say what its rows' results are."""
        slots, compute = plan.sampling_slots, self._device.compute
        if not slots:
            return ()
        if bound:
            berth.put_masks(self._tenants.masks(bound))
            used = slice(0, len(bound))
            compute.copy(machine.sampler.masks[used], berth.masks[used])
        # The results of the step before lie where this one's go.
        compute.follow(self._last_read)
        program = self._tenants.program(slots)
        compute.run(machine.graphs.sampling(shape.rows, program))
        return self._tenants.expect(slots, bound)

    def _read_back(
        self, machine: Machine, plan: StepPlan, berth: Berth, ended: Mark
    ) -> Mark:
        """Queue the results' way to the host, beside what is computed next."""
        slots = plan.sampling_slots
        if not slots:
            return ended
        readback, rows = self._device.readback, slice(0, len(slots))
        readback.follow(ended)
        readback.copy(berth.outcomes[rows], machine.sampler.outcomes[rows])
        if self._tenants.program(slots).extras is Extras.REPORTED:
            readback.copy(berth.reports[rows], machine.sampler.reports[rows])
        self._last_read = readback.mark()
        return self._last_read
