"""What the host knows of each slot's sampling: its needs, its grammar, its faults."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...protocol.steps import RowSampling, SlotOpen
from ..grammar import Grammars, Matcher, matcher_of
from ..sampling.wishes import GREEDY, fault_of_numbers
from .launched import PLAIN, Expected, LaunchedStep
from .program import BOUND, Program

Matchers = Mapping[int, Matcher]


@dataclass(frozen=True)
class Tenant:
    """A slot's sequence.

    Args:
        sampling: As it can be computed with.
        program: What its rows need.
        expected: Of its rows, as long as no grammar fails.
        matcher: Follows its grammar, if it has one.
    """

    sampling: RowSampling
    program: Program
    expected: Expected
    matcher: Matcher | None


class Tenants:
    """Every slot's.

    Args:
        vocab_size: Of the model.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._slots: dict[int, Tenant] = {}
        self._unfollowed: deque[tuple[LaunchedStep, Matchers]] = deque()
        self.grammars: Grammars | None = None

    def open(self, opened: SlotOpen) -> RowSampling:
        """Take a sequence in; numbers that cannot be computed with make it greedy.

        Raises:
            ValueError: It has a grammar, and the runner was not equipped for that.
        """
        fault = fault_of_numbers(opened.sampling)
        sampling = GREEDY if fault else opened.sampling
        matcher = matcher_of(opened, self.grammars)
        program = Program.of(sampling, self._vocab_size)
        if matcher is not None:
            program = Program.joined((program, BOUND))
        plain = not fault and sampling.logprobs < 0
        expected = PLAIN if plain else Expected(sampling.logprobs, fault)
        self._slots[opened.slot] = Tenant(sampling, program, expected, matcher)
        return sampling

    def num_likeliest(self, slot: int) -> int:
        """How many of the likeliest tokens a slot wants to know beside its prompt's."""
        return self._slots[slot].sampling.prompt_logprobs

    def program(self, slots: Iterable[int]) -> Program:
        """The least that is enough for all of some slots, of which there are any."""
        return Program.joined({self._slots[slot].program for slot in slots})

    def bound(self, slots: Sequence[int]) -> dict[int, Matcher]:
        """The matchers of slots that have one, by place."""
        found = ((n, self._slots[slot].matcher) for n, slot in enumerate(slots))
        return {place: matcher for place, matcher in found if matcher is not None}

    def masks(self, bound: Matchers) -> list[bytes]:
        """Say what may come next; waits for the tokens that came before.

        Those may be a step in flight's. What this step computes before it samples is
        queued by then, so that the device does not wait as well.
        """
        self._follow(waiting=True)
        return [matcher.mask() for matcher in bound.values()]

    def expect(self, slots: Sequence[int], bound: Matchers) -> tuple[Expected, ...]:
        """What rows' results are, by the place of their slots; after ``masks``."""
        rows = [self._slots[slot].expected for slot in slots]
        for place, matcher in bound.items():
            if matcher.fault and not rows[place].fault:
                rows[place] = Expected(rows[place].logprobs, matcher.fault)
        return tuple(rows)

    def launched(self, step: LaunchedStep, bound: Matchers) -> None:
        """Remember that matchers are to follow a step's tokens."""
        self._follow(waiting=False)
        if bound:
            self._unfollowed.append((step, bound))

    def clear(self) -> None:
        """Forget every sequence."""
        self._slots.clear()
        self._unfollowed.clear()

    def _follow(self, *, waiting: bool) -> None:
        while self._unfollowed:
            step, bound = self._unfollowed[0]
            if not (waiting or step.is_read):
                return
            result = step.wait()
            for place, matcher in bound.items():
                if place not in result.faults:
                    matcher.advance(result.tokens[place])
            self._unfollowed.popleft()
