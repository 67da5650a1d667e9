"""What one slot wants of its logits before a token is chosen.

Penalties, bias, forbidden ends and a grammar; the only sampling state that lives
between steps.
"""

from collections.abc import Iterable, Sequence

import torch

from ...protocol.steps import RowSampling
from ..grammar import Matcher

# Below it dividing logits by a float32 temperature means nothing: greedy.
COLDEST = 1e-5
LARGEST = torch.finfo(torch.float32).max
GREEDY = RowSampling(0.0)
REALS = (
    "temperature",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


class SlotWishes:
    """A slot's sampling, with its tensors made once.

    Sampling that cannot be computed with is not an error: ``fault`` says what is wrong
    with it, and ``sampling`` is greedy, so that the rows beside it get their tokens.

    Args:
        sampling: As the slot was opened.
        prompt_tokens: Length of its prompt.
        history: Ids of prompt and answer so far, if a penalty needs them.
        vocab_size: Ids beyond are ignored.
        device: Of the logits.
        matcher: Follows the answer's grammar, if it has one.
    """

    def __init__(
        self,
        sampling: RowSampling,
        *,
        prompt_tokens: int,
        history: Sequence[int],
        vocab_size: int,
        device: torch.device,
        matcher: Matcher | None = None,
    ) -> None:
        self._fault = fault_of_numbers(sampling)
        self.sampling = sampling = GREEDY if self._fault else sampling
        self.matcher = matcher
        self._device = device
        bias = {t: b for t, b in sampling.logit_bias.items() if 0 <= t < vocab_size}
        self._bias_ids = self._ids(bias)
        # Clients may write whole numbers, which alone would make integers of it.
        values = [float(value) for value in bias.values()]
        self._bias = torch.tensor(values, dtype=torch.float32, device=device)
        self._ends = self._ids(t for t in sampling.ends if 0 <= t < vocab_size)
        self.counts: torch.Tensor | None = None
        self._prompt: torch.Tensor | None = None
        if self.has_penalty:
            known = [token for token in history if 0 <= token < vocab_size]
            self._count(known[:prompt_tokens], known[prompt_tokens:], vocab_size)
        # Whether its token is chosen from the logits as they are, and all that is told.
        self.is_simple = (
            self.is_plain
            and sampling.logprobs < 0
            and not self._fault
            and matcher is None
        )

    @property
    def fault(self) -> str:
        """What is wrong with it; "" if nothing is."""
        if self._fault or self.matcher is None:
            return self._fault
        return self.matcher.fault

    @property
    def has_penalty(self) -> bool:
        """Whether it counts tokens."""
        wants = self.sampling
        additive = wants.presence_penalty != 0 or wants.frequency_penalty != 0
        return additive or wants.repetition_penalty != 1

    @property
    def is_plain(self) -> bool:
        """Whether logits are always taken as they are."""
        return not (self.has_penalty or len(self._bias) or self.sampling.min_tokens)

    def adjust(self, logits: torch.Tensor, output: int) -> None:
        """Change one row of logits in place.

        Args:
            logits: [vocab] float32.
            output: Number of the output token being chosen.
        """
        wants = self.sampling
        if self.counts is not None:
            self._penalize(logits, self.counts)
        if len(self._bias):
            logits.index_add_(0, self._bias_ids, self._bias)
        if output < wants.min_tokens:
            logits.index_fill_(0, self._ends, float("-inf"))

    def note(self, token: int) -> None:
        """Count a token that was chosen, and follow the grammar past it."""
        if self.matcher is not None:
            self.matcher.advance(token)
        if self.counts is not None:
            self.counts[token] += 1

    def _penalize(self, logits: torch.Tensor, counts: torch.Tensor) -> None:
        wants = self.sampling
        if wants.repetition_penalty != 1:
            assert self._prompt is not None, "counted together with the answer"
            penalty = wants.repetition_penalty
            smaller = torch.where(logits > 0, logits / penalty, logits * penalty)
            logits.copy_(torch.where(self._prompt | (counts > 0), smaller, logits))
        logits.sub_(counts, alpha=wants.frequency_penalty)
        logits.sub_((counts > 0).float(), alpha=wants.presence_penalty)

    def _count(
        self, prompt: Sequence[int], answer: Sequence[int], vocab_size: int
    ) -> None:
        self._prompt = torch.zeros(vocab_size, dtype=torch.bool, device=self._device)
        self._prompt[self._ids(prompt)] = True
        counts = torch.bincount(self._ids(answer), minlength=vocab_size)
        self.counts = counts.float()

    def _ids(self, tokens: Iterable[int]) -> torch.Tensor:
        return torch.tensor(list(tokens), dtype=torch.int64, device=self._device)


def fault_of_numbers(sampling: RowSampling) -> str:
    """Say which of a row's numbers float32 does not hold; "" if it holds them all."""
    numbers = [(name, getattr(sampling, name)) for name in REALS]
    numbers += [("logit_bias", value) for value in sampling.logit_bias.values()]
    for name, value in numbers:
        if not abs(value) <= LARGEST:
            return f"{name} is not a number that a float32 holds"
    return ""
