"""A runner with a real model, through torch, on a CPU or a CUDA device."""

import time
from dataclasses import dataclass

import torch

from ..protocol.steps import RunnerLimits, StepPlan, StepResult, TokenLogprobs
from .attention import KvCache
from .grammar import Grammars
from .model import Forward
from .model.native_decoder import NativeDecoder
from .native_decodes import NativeDecodes, NativeDrawing
from .parallel.group import Group
from .readback import integers
from .sampling import Sampled, sample
from .slots import Slots, StepInputs

Scores = dict[int, tuple[TokenLogprobs, ...]]


@dataclass(frozen=True)
class FinishedStep:
    """A step that ran while it was launched."""

    result: StepResult

    def wait(self) -> StepResult:
        """Return at once."""
        return self.result


class TorchRunner:
    """Runs each step as it is launched, in the calling thread.

    Args:
        decoder: The model, whose attention works over ``cache``.
        cache: The pool.
        limits: What it can hold.
        memory_report: How the pool was sized.
        group: The ranks that run the same plans, or None; the first alone samples.
    """

    launch_depth = 1

    def __init__(
        self,
        decoder: Forward,
        cache: KvCache,
        limits: RunnerLimits,
        memory_report: str,
        group: Group | None = None,
    ) -> None:
        self.limits = limits
        self.memory_report = memory_report
        self._parts: tuple[Forward, KvCache] | None = (decoder, cache)
        self._slots = Slots(limits, cache.keys.device)
        self._group = group
        self._decodes: NativeDecodes | None = None
        self._drawing: NativeDrawing | None = None
        if isinstance(decoder, NativeDecoder):
            self._decodes = NativeDecodes(decoder, self._slots)
            self._drawing = NativeDrawing(decoder)

    def equip(self, grammars: Grammars) -> None:
        """Take what slots with a grammar need."""
        self._slots.grammars = grammars

    def launch(self, plan: StepPlan) -> FinishedStep:
        """Run a step.

        Raises:
            ValueError: The plan breaks the limits, or the runner was closed.
        """
        started_s = time.perf_counter()
        if self._parts is None:
            raise ValueError("the runner was closed")
        if plan.num_tokens > self.limits.max_step_tokens:
            raise ValueError(
                f"{plan.num_tokens} tokens in a step, at most "
                f"{self.limits.max_step_tokens}"
            )
        scores: Scores = {}
        sampled = self._decodes.run(plan) if self._decodes else None
        if sampled is None:
            with torch.inference_mode():
                sampled, scores = self._run(*self._parts, plan)
        finished_s = time.perf_counter()
        return FinishedStep(
            StepResult(
                plan.step,
                tuple(sampled.tokens),
                started_s,
                finished_s,
                sampled.logprobs,
                sampled.faults,
                scores,
            )
        )

    def close(self) -> None:
        """Free the weights and the pool. May be called again."""
        self._parts = self._decodes = self._drawing = None
        self._slots.clear()

    def _run(
        self, decoder: Forward, cache: KvCache, plan: StepPlan
    ) -> tuple[Sampled, Scores]:
        for opened in plan.opens:
            self._slots.open(opened)
        cache.copy(plan.copies)
        if not (plan.decodes or plan.rows):
            return Sampled(), {}
        inputs = self._slots.enter(plan)
        sampled = self._step(decoder, cache, inputs)
        return sampled, inputs.scoring.scores() if inputs.scoring else {}

    def _step(self, decoder: Forward, cache: KvCache, inputs: StepInputs) -> Sampled:
        if len(inputs.untouched):
            cache.scrub(inputs.untouched)
        logits = decoder.forward(
            inputs.ids, inputs.batch, inputs.sampling, inputs.scoring
        )
        if not inputs.rows:
            return Sampled()
        sampled = self._sample(logits, inputs)
        self._slots.keep(inputs.rows, sampled.tokens)
        return sampled

    def _sample(self, logits: torch.Tensor, inputs: StepInputs) -> Sampled:
        group = self._group
        if group is None:
            return sample(logits, inputs.rows, self._drawing)
        if group.rank:
            tokens = torch.zeros(len(inputs.rows), dtype=torch.int64)
            return Sampled(integers(group.share(tokens.to(logits.device))))
        sampled = sample(logits, inputs.rows)
        group.share(torch.tensor(sampled.tokens, device=logits.device))
        return sampled
