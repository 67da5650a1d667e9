"""A runner without a model: a paced device for testing the pipeline around it.

A step takes a set time and holds neither lock nor CPU meanwhile. The tokens are a pure
function of each sequence's history, so that a batched, chunked, preempted or resumed
answer must equal the undisturbed one, and a token read from the wrong page or slot
shows.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..protocol.models import TextSource, VocabularySource
from ..protocol.steps import (
    RunnerLimits,
    SlotOpen,
    StepPlan,
    StepResult,
    StepRow,
    TokenLogprobs,
)
from .grammar import Grammars, Matcher, matcher_of

FAKE_LIMITS = RunnerLimits(
    num_slots=64,
    num_pages=1024,
    page_size=16,
    max_context=2048,
    max_step_tokens=512,
    vocab_size=257,
    page_bytes=0,
)


def fake_next(history: Iterable[int], vocab_size: int) -> int:
    """The token a FakeRunner samples after a history, end tokens aside."""
    state = 0
    for token in history:
        state = advance(state, token)
    return pick(state, vocab_size)


def fake_answer(
    prompt: Iterable[int],
    max_tokens: int,
    *,
    vocab_size: int = 257,
    end: int | None = 256,
) -> tuple[int, ...]:
    """The whole answer of a FakeRunner, by its arithmetic alone; ends with ``end``."""
    state = 0
    for token in prompt:
        state = advance(state, token)
    answer: list[int] = []
    while len(answer) < max_tokens and (not answer or answer[-1] != end):
        answer.append(pick(state, vocab_size))
        state = advance(state, answer[-1])
    return tuple(answer)


def advance(state: int, token: int) -> int:
    """Fold one token into a history's state."""
    return (state * 1_000_003 + token + 1) & 0xFFFF_FFFF


def pick(state: int, vocab_size: int) -> int:
    """Choose a token for a state, spread evenly over the vocabulary."""
    mixed = (state ^ (state >> 15)) * 0x2C1B_3C6D & 0xFFFF_FFFF
    return (mixed ^ (mixed >> 12)) % vocab_size


def fake_score(state: int, target: int, count: int) -> TokenLogprobs:
    """What a FakeRunner says of a token after a history with this state."""
    chosen = -(advance(state, target) % 4096) / 256
    return TokenLogprobs(chosen, (target,) * count, (chosen,) * count)


def nearest(mask: bytes, wanted: int) -> int:
    """Of the tokens a mask allows, the first from the wanted one on, going round."""
    allowed = int.from_bytes(mask, "little")
    later = allowed >> wanted << wanted or allowed
    return (later & -later).bit_length() - 1


@dataclass
class _Slot:
    opened: SlotOpen
    pages: list[int]
    matcher: Matcher | None
    position: int = 0
    future: int = -1


@dataclass
class _Sampled:
    """What a step samples, as it comes."""

    tokens: list[int] = field(default_factory=list[int])
    logprobs: dict[int, TokenLogprobs] = field(default_factory=dict[int, TokenLogprobs])
    faults: dict[int, str] = field(default_factory=dict[int, str])


@dataclass
class FakeStep:
    """A step on the paced device: its result, due at its finish."""

    result: StepResult
    sleep: Callable[[float], None] = time.sleep

    def wait(self) -> StepResult:
        """Sleep until the step is done."""
        rest_s = self.result.finished_s - time.perf_counter()
        if rest_s > 0:
            self.sleep(rest_s)
        return self.result


@dataclass
class FakeRunner:
    """A paced device.

    Each page cell keeps the state of the history up to its token, written when the
    position is computed and read back by the next row: so a wrong block table gives
    wrong tokens, as it would on a real device.

    Args:
        limits: What it pretends to hold.
        step_s: Seconds a step takes.
        launch_depth: As the contract says.
        memory_report: As the contract says.
        script: Token to sample instead, by (prompt length, output number); for tests
            that need a certain text. None goes by the history.
        fail_at: The step number that raises, or None.
    """

    limits: RunnerLimits = FAKE_LIMITS
    step_s: float = 0.0
    launch_depth: int = 2
    memory_report: str = "no memory: a paced device"
    script: Callable[[int, int], int] | None = None
    fail_at: int | None = None
    _free_at_s: float = 0.0
    _slots: dict[int, _Slot] = field(default_factory=dict[int, _Slot])
    _cells: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _grammars: Grammars | None = None

    def equip(self, grammars: Grammars) -> None:
        """Take what slots with a grammar need."""
        self._grammars = grammars

    def launch(self, plan: StepPlan) -> FakeStep:
        """Compute the tokens at once; they are due a step's time later.

        Raises:
            RuntimeError: At ``fail_at``.
            ValueError: The plan breaks the limits.
        """
        if plan.step == self.fail_at:
            raise RuntimeError(f"the device was told to fail at step {plan.step}")
        if plan.num_tokens > self.limits.max_step_tokens:
            raise ValueError(f"{plan.num_tokens} tokens in one step")
        for opened in plan.opens:
            matcher = matcher_of(opened, self._grammars)
            self._slots[opened.slot] = _Slot(opened, list(opened.pages), matcher)
        for source, target in plan.copies:
            self._cells[target] = list(self._page(source))
        for number, page in plan.grown:
            self._slots[number].pages.append(page)
        sampled = _Sampled()
        for number in plan.decodes:
            slot = self._slots[number]
            self._sample(slot, self._run(slot, (slot.future,)), sampled)
        scores: dict[int, tuple[TokenLogprobs, ...]] = {}
        for place, row in enumerate(plan.rows):
            slot = self._slots[row.slot]
            slot.pages.extend(row.pages)
            slot.position = row.start
            state = self._run(slot, row.tokens)
            if row.targets:
                scores[place] = self._score(slot, row)
            if row.samples:
                self._sample(slot, state, sampled)
        started_s = max(time.perf_counter(), self._free_at_s)
        self._free_at_s = started_s + self.step_s
        return FakeStep(
            StepResult(
                plan.step,
                tuple(sampled.tokens),
                started_s,
                self._free_at_s,
                sampled.logprobs,
                sampled.faults,
                scores,
            )
        )

    def close(self) -> None:
        """Forget everything."""
        self._slots.clear()
        self._cells.clear()

    def _page(self, page: int) -> list[int]:
        if not 0 <= page < self.limits.num_pages:
            raise ValueError(f"page {page} is outside the pool")
        return self._cells.setdefault(page, [-1] * self.limits.page_size)

    def _run(self, slot: _Slot, tokens: Iterable[int]) -> int:
        """Compute a slot's next positions; return the history's state after them."""
        size, state = self.limits.page_size, 0
        if slot.position:
            before = slot.position - 1
            state = self._page(slot.pages[before // size])[before % size]
            if state < 0:
                raise ValueError(f"position {before} was never computed")
        for token in tokens:
            position = slot.position
            state = advance(state, token)
            self._page(slot.pages[position // size])[position % size] = state
            slot.position += 1
        return state

    def _score(self, slot: _Slot, row: StepRow) -> tuple[TokenLogprobs, ...]:
        """Say how likely given tokens are, out of the pages' cells."""
        size, count = self.limits.page_size, slot.opened.sampling.prompt_logprobs
        begin = row.start + row.targets_from
        return tuple(
            fake_score(self._page(slot.pages[at // size])[at % size], target, count)
            for at, target in enumerate(row.targets, begin)
        )

    def _sample(self, slot: _Slot, state: int, sampled: _Sampled) -> None:
        output = slot.position - slot.opened.prompt_tokens
        chosen = self._choose(slot.opened, output, state)
        fault = "" if slot.matcher is None else slot.matcher.fault
        if chosen is not None and slot.matcher is not None:
            chosen = nearest(slot.matcher.mask(), chosen)
            slot.matcher.advance(chosen)
        slot.future = chosen or 0
        place = len(sampled.tokens)
        sampled.tokens.append(slot.future)
        if chosen is None or fault:
            sampled.faults[place] = fault or "no token is left to choose from"
            return
        asked = min(slot.opened.sampling.logprobs, self.limits.vocab_size)
        if asked >= 0:
            top = (slot.future,) * asked
            sampled.logprobs[place] = TokenLogprobs(-1.0, top, (-1.0,) * asked)

    def _choose(self, opened: SlotOpen, output: int, state: int) -> int | None:
        if self.script is not None:
            return self.script(opened.prompt_tokens, output)
        first, size = pick(state, self.limits.vocab_size), self.limits.vocab_size
        if output >= opened.sampling.min_tokens:
            return first
        ends = set(opened.sampling.ends)
        tokens = ((first + step) % size for step in range(size))
        return next((token for token in tokens if token not in ends), None)


def fake_text() -> TextSource:
    """Text for a paced device: one token a byte (0 to 255), and an end token (256)."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    # The usual byte-level alphabet of GPT-2: printable bytes stand for themselves.
    tokens = [chr(b) if b in kept else chr(next(moved)) for b in range(256)]
    vocabulary = VocabularySource(
        kind="bpe",
        tokens=(*tokens, "<end>"),
        types=(1,) * 256 + (3,),
        pre="gpt-2",
        eos_id=256,
    )
    template = (
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n"
        "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return TextSource(
        vocabulary=vocabulary,
        chat_template=template,
        stop_ids=(256,),
        eos_token="<end>",
    )
