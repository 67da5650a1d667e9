"""Chooses tokens on the device, in tensors that stay where they are.

Does what ``sampling.sample`` does, with the same random numbers, but asks the host for
nothing: which rows want what is a matter of the slots' tensors.
"""

from dataclasses import dataclass
from math import inf

import torch

from ...protocol.sampling import MAX_LOGPROBS
from ...protocol.steps import RunnerLimits
from ..parallel.group import Group
from ..sampling.draw import draw_wide, relative_weights
from ..sampling.randomness import uniform
from ..sampling.sampler import likeliest
from .device import Device
from .filters import keep_top_k, keep_top_p
from .program import Choice, Extras, Program
from .slot_sampling import END, PROMPT, SlotSampling, Wants


@dataclass(frozen=True)
class SampledRows:
    """The rows that sample, padded; int64 tensors of [rows] on the device.

    Args:
        slots: Theirs; padding rows have the slot behind the last.
        outputs: Numbers of the output tokens.
        masks: Which grammar mask binds a row; -1 for none.
    """

    slots: torch.Tensor
    outputs: torch.Tensor
    masks: torch.Tensor


class DeviceSampler:
    """The static tensors around the choice of tokens, and the choice.

    Args:
        limits: Of the runner.
        most_rows: Rows of a step, padding included.
        device: Where it runs.
        group: The ranks that sample the same rows, or None; the first one's tokens
            are everybody's.

    A forward pass leaves its logits in ``logits`` [rows, vocab] float32. The tokens are
    then in ``future`` [slots], by slot, and in ``outcomes`` [rows, 2] float64: token
    and largest logit. ``reports`` [rows, 1 + 2 * likeliest] float64 has the
    log-probabilities of the token and of the likeliest, then those tokens' ids.
    ``masks`` [rows, words] int32 has a bit for each token that a grammar allows.
    """

    def __init__(
        self,
        limits: RunnerLimits,
        most_rows: int,
        device: Device,
        group: Group | None = None,
    ) -> None:
        where, vocab_size = device.torch_device, limits.vocab_size
        self._group = group
        self.slots = SlotSampling(limits, device)
        self.num_likeliest = min(MAX_LOGPROBS, vocab_size)
        self.logits = torch.zeros((most_rows, vocab_size), device=where)
        self.future = torch.zeros(limits.num_slots + 1, dtype=torch.int64, device=where)
        wide = torch.zeros(
            (most_rows, 3 + 2 * self.num_likeliest), dtype=torch.float64, device=where
        )
        self.outcomes, self.reports = wide[:, :2].clone(), wide[:, 2:].clone()
        words = -(-vocab_size // 32)
        self.masks = torch.zeros((most_rows, words), dtype=torch.int32, device=where)
        self._bits = torch.arange(32, dtype=torch.int32, device=where)

    @property
    def num_bytes(self) -> int:
        """Memory of all of it."""
        parts = (self.logits, self.future, self.outcomes, self.reports, self.masks)
        return self.slots.num_bytes + sum(part.nbytes for part in parts)

    def sample(self, program: Program, rows: SampledRows) -> None:
        """Choose a token for each row; nothing in it depends on the rows' number."""
        count = len(rows.slots)
        logits, wants = self.logits[:count], self.slots.gather(rows.slots)
        adjusted = logits
        if program.extras:
            adjusted = self._bind(self._adjust(logits, rows, wants), rows)
        peaks, tokens = likeliest(adjusted)
        if program.choice:
            drawn = _draw(adjusted, rows, wants, program.choice)
            is_cold = wants.integers["is_cold"][:, 0] > 0
            tokens = torch.where(is_cold, tokens, drawn)
        if self._group is not None:
            tokens = self._group.share(tokens.contiguous())
        self.future.index_copy_(0, rows.slots, tokens)
        self.outcomes[:count, 0].copy_(tokens)
        self.outcomes[:count, 1].copy_(peaks)
        if program.extras:
            self._count(rows, wants, tokens)
        if program.extras is Extras.REPORTED:
            self._report(logits, tokens)

    def _adjust(
        self, logits: torch.Tensor, rows: SampledRows, wants: Wants
    ) -> torch.Tensor:
        """Penalties, bias, ends that wait; rows without get their very own logits."""
        counts, marks = self.slots.counts[rows.slots], self.slots.marks[rows.slots]
        penalty = wants.reals["repetition_penalty"]
        seen = (counts > 0) | ((marks & PROMPT) > 0)
        smaller = torch.where(logits > 0, logits / penalty, logits * penalty)
        adjusted = torch.where(seen & (penalty != 1), smaller, logits)
        adjusted = adjusted - counts * wants.reals["frequency_penalty"]
        adjusted = adjusted - (counts > 0) * wants.reals["presence_penalty"]
        bias = torch.where(wants.reals["has_bias"] > 0, self.slots.bias[rows.slots], 0)
        waits = rows.outputs[:, None] < wants.integers["min_tokens"]
        return (adjusted + bias).masked_fill(waits & ((marks & END) > 0), -inf)

    def _bind(self, logits: torch.Tensor, rows: SampledRows) -> torch.Tensor:
        """Forbid what rows' grammars do not allow."""
        words = self.masks[rows.masks.clamp(min=0)]
        allowed = ((words[:, :, None] >> self._bits) & 1).view(len(words), -1) > 0
        is_bound = (rows.masks >= 0)[:, None]
        return logits.masked_fill(is_bound & ~allowed[:, : logits.shape[1]], -inf)

    def _count(self, rows: SampledRows, wants: Wants, tokens: torch.Tensor) -> None:
        cells = rows.slots * self.logits.shape[1] + tokens
        once = wants.integers["counts"][:, 0].int()
        self.slots.counts.view(-1).scatter_add_(0, cells, once)

    def _report(self, logits: torch.Tensor, tokens: torch.Tensor) -> None:
        """Report the model's own log-probabilities, before any adjustment."""
        logprobs = logits.log_softmax(1)
        values, ids = logprobs.topk(self.num_likeliest)
        chosen = logprobs.gather(1, tokens[:, None])
        self.reports[: len(tokens)].copy_(torch.cat((chosen, values, ids), 1))


def _draw(
    logits: torch.Tensor, rows: SampledRows, wants: Wants, choice: Choice
) -> torch.Tensor:
    weights = relative_weights(logits, wants.reals["temperature"])
    weights = torch.where(weights >= wants.reals["min_p"], weights, 0.0)
    if choice is Choice.FILTERED:
        weights = keep_top_k(weights, wants.integers["top_k"])
        weights = keep_top_p(weights, wants.reals["top_p"])
    seeds = wants.integers["seed"][:, 0]
    return draw_wide(weights, uniform(seeds, rows.outputs))
