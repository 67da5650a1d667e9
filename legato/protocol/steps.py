"""What the scheduler and the executor say to each other: one message per step.

A *slot* is a sequence's place on the device: its row in the block table, its sampling
state and its cell in the future buffer, where the token it sampled last stays until
the next step reads it. The runner keeps slots between steps; a plan carries only what
changed, so that a step's message does not grow with the history behind it.
"""

import msgspec

from .errors import Failure
from .grammar import Grammar


class RowSampling(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one slot's tokens are chosen. Meanings as in ``SamplingParams``.

    Args:
        seed: Always set: the engine draws one where the request has none.
        ends: Token ids that may not be sampled before ``min_tokens``.
        logprobs: Number of likeliest tokens to report; -1 reports nothing at all.
        grammar: What the answer must look like, or None.
        prompt_logprobs: As ``logprobs``, of the prompt's own tokens.
    """

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    min_tokens: int = 0
    ends: tuple[int, ...] = ()
    logprobs: int = -1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    grammar: Grammar | None = None
    prompt_logprobs: int = -1


class SlotOpen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Give a slot to a sequence, new or resumed, before its first row.

    Args:
        slot: The slot, whose former state is forgotten.
        sampling: How its tokens are chosen.
        prompt_tokens: Length of the prompt. The token sampled at position p (the
            position it will take) is output number ``p - prompt_tokens``.
        pages: The block table's first pages, shared prefix included.
        history: Ids of prompt and answer so far, only if a penalty or a grammar needs
            them.
    """

    slot: int
    sampling: RowSampling
    prompt_tokens: int
    pages: tuple[int, ...]
    history: tuple[int, ...] = ()


class StepRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One slot's work in one step, where its tokens must be told.

    Args:
        slot: The slot.
        start: Position of the row's first token; all before it are in the cache.
        tokens: Input ids.
        samples: Whether the row's last position samples a token.
        pages: Pages to append to the slot's block table before the step.
        targets: Tokens whose log-probabilities are wanted: the first is the one that
            follows the row's position number ``targets_from``, the others follow the
            positions after that.
        targets_from: From 0.
    """

    slot: int
    start: int
    tokens: tuple[int, ...]
    samples: bool
    pages: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    targets_from: int = 0

    @property
    def num_tokens(self) -> int:
        """Positions this row computes."""
        return len(self.tokens)


class StepPlan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everything the device needs for one step.

    A runner does, in this order: ``opens``, ``copies``, ``grown`` and each row's
    ``pages``, the forward pass, sampling.

    Most of a step are *decodes*: slots that go on from their last row, which sampled.
    Such a slot computes one token, the one in its cell of the future buffer, at the
    position behind that row, and samples the next. Its number says all of that, and
    while nobody comes or goes, every plan carries the same tuple.

    Args:
        step: Dense number, from 0 (and again from 0 after a restart of the runner).
        rows: At most one row a slot, decodes included.
        opens: Slots that change hands with this step.
        copies: (source, target) pages to copy whole before the step writes.
        decodes: Slots that decode. In the step and its result they stand before rows.
        grown: (slot, page) to append to the block tables of decodes.
    """

    step: int
    rows: tuple[StepRow, ...]
    opens: tuple[SlotOpen, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    decodes: tuple[int, ...] = ()
    grown: tuple[tuple[int, int], ...] = ()

    @property
    def num_tokens(self) -> int:
        """Positions the whole step computes."""
        return len(self.decodes) + sum(row.num_tokens for row in self.rows)

    @property
    def slots(self) -> tuple[int, ...]:
        """Every slot with work in it, in order."""
        return (*self.decodes, *(row.slot for row in self.rows))

    @property
    def sampling_slots(self) -> tuple[int, ...]:
        """Every slot that samples: the order of the result."""
        return (*self.decodes, *(row.slot for row in self.rows if row.samples))


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Natural log-probabilities at one sampled position.

    Taken from the model's own logits: before penalties, bias and temperature.

    Args:
        chosen: Of the sampled token.
        ids: The likeliest tokens, best first.
        values: Theirs, in the same order.
    """

    chosen: float
    ids: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


class SampledToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one slot sampled, as ``StepResult.sampled`` shows it.

    Args:
        token: The id.
        logprobs: If the slot asked for them.
        fault: Not empty: the row's logits were unusable (NaN, infinite, nothing left
            to choose from), ``token`` means nothing, and the sequence must end.
    """

    token: int
    logprobs: TokenLogprobs | None = None
    fault: str = ""


class StepResult(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """What a step brought, and when.

    Args:
        step: The plan's number.
        tokens: One for each decode and each row that samples, in the plan's order.
        logprobs: Of those who asked for them, by place among the tokens.
        faults: Why a token means nothing, by its place.
        scores: Of a row's ``targets``, one for each, by the row's place in the plan.
        started_s: ``time.perf_counter()`` as the device began.
        finished_s: And as it finished.
    """

    step: int
    tokens: tuple[int, ...]
    started_s: float = 0.0
    finished_s: float = 0.0
    logprobs: dict[int, TokenLogprobs] = {}
    faults: dict[int, str] = {}
    scores: dict[int, tuple[TokenLogprobs, ...]] = {}

    @property
    def sampled(self) -> tuple[SampledToken, ...]:
        """The tokens one by one, each with what belongs to it."""
        return tuple(
            SampledToken(token, self.logprobs.get(place), self.faults.get(place, ""))
            for place, token in enumerate(self.tokens)
        )


class DeviceFailed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """The runner died; steps in flight are lost.

    Args:
        failure: The error's kind and text.
        fatal: Building it again would fail the same way: a bad model or setting.
    """

    failure: Failure
    fatal: bool = False


class RunnerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner can hold; fixed when it is built.

    Args:
        num_slots: Sequences on the device at once.
        num_pages: Pages in the pool. Page ids are 0 to num_pages - 1, all usable.
        page_size: Tokens in a page.
        max_context: Most positions a sequence may have.
        max_step_tokens: Most positions one plan may compute.
        vocab_size: Ids are below this.
        page_bytes: Memory one page takes over all layers.
        decode_weight: Tokens of a prompt that take a step as long as a decode does; 0
            where steps take about as long whatever they compute.
    """

    num_slots: int
    num_pages: int
    page_size: int
    max_context: int
    max_step_tokens: int
    vocab_size: int
    page_bytes: int
    decode_weight: float = 0.0


class DeviceReady(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The runner is built.

    Args:
        limits: What it can hold.
        memory: How the pool was sized, as a line to print.
    """

    limits: RunnerLimits
    memory: str = ""
