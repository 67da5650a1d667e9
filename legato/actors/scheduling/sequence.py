"""A sequence: everything the planner knows about one live request.

Positions are counted from the prompt's first token. Three marks move along them:

    done <= planned <= length
    done      computed by steps whose results are known; moves only with the prompt
    planned   computed once every dispatched step has run
    length    tokens that exist: the known ones, then those that dispatched rows sample
              and whose values the host does not have yet

A decoding sequence's marks are moved on by ``Decodes``, and stand still in between.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from ...protocol.requests import Admit, Usage

if TYPE_CHECKING:
    from .ledger import Flight
    from .prefix import Node
    from .tenants import Share


class Home(Enum):
    """Where a sequence is kept; it is in exactly one home at any time."""

    FRESH = auto()
    """In line for its first start."""
    RESUMING = auto()
    """In line again, after it lost its slot."""
    FOLLOWING = auto()
    """Waits until another sequence has computed the prompt they share."""
    DRAINING = auto()
    """Lost its slot while rows were in flight; waits for their results."""
    PARKED = auto()
    """Paused, without a slot."""
    HOLDING = auto()
    """Paused, with its slot and pages, until someone needs them."""
    PREFILL = auto()
    """Has prompt (or lost output) to compute before it can decode."""
    DECODE = auto()
    """One row in every step."""
    FINISHING = auto()
    """Its last row is dispatched."""
    ENDED = auto()
    """Its terminal event is out."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One live request.

    Args:
        admit: The message it came with.
        order: Dense number of its arrival.
        queued_s: The clock at its arrival.
        share: Its tenant's account.
        room: Positions left in its pages.
        left: Tokens it may still be planned to sample.
        fed: The token to compute next is in its slot's cell of the future buffer.
        round: Of the decodes: up to it the marks stand.
        due: Of the decodes: the round that finds its page full, or is its last; -1
            where it is not filed.
        place: Among the decodes.
        turn: Of the decodes: when it last took part, while not all can.
        charged: Output tokens its tenant has been charged for.
        is_computing: Until the results of its prompt (and of output it lost) are in.
            Up to there its pages go to the prefix cache as they fill, the answer's
            only as it leaves.
        level: The priority it started with: its own, as raised by waiting. Pressure
            goes by it, or what waiting had won would be lost at once.
        started_s: The clock as it got its first slot.
        scored: Of the prompt's tokens after the first, those whose log-probabilities
            were told; moves on as results come, if they are wanted at all.
    """

    admit: Admit
    order: int
    queued_s: float
    share: "Share"
    request: int = 0
    slot: int | None = None
    home: Home = Home.ENDED
    # What a decode's next page takes stands together: at a thousand sequences that is
    # a matter of cache lines.
    tokens: list[int] = field(default_factory=list[int])
    pages: list[int] = field(default_factory=list[int])
    flight: "Flight | None" = None
    prompt_tokens: int = 0
    charged: int = 0
    planned: int = 0
    length: int = 0
    room: int = 0
    left: int = 0
    fed: bool = False
    round: int = 0
    due: int = -1
    place: int = -1
    turn: int = 0
    is_computing: bool = False
    endings: frozenset[int] = frozenset()
    priority: int = 0
    level: int = 0
    max_length: int = 0
    paused: bool = False
    started: bool = False
    opened: bool = False
    ticket: int = 0
    epoch: int = 0
    cached_tokens: int = 0
    done: int = 0
    copied_from: int | None = None
    own_pages_from: int = 0
    node: "Node | None" = None
    published: int = 0
    ends: frozenset[int] = frozenset()
    stops: frozenset[int] = frozenset()
    started_s: float = 0.0
    scored: int = 0

    def __post_init__(self) -> None:
        admit = self.admit
        self.request = admit.request
        self.priority = admit.priority
        self.tokens = [*admit.prompt, *admit.emitted]
        self.prompt_tokens = len(admit.prompt)
        self.length = len(self.tokens)
        self.max_length = self.prompt_tokens + admit.max_tokens
        self.charged = len(admit.emitted)
        self.scored = admit.scored
        self.left = self.max_length - len(self.tokens)
        self.ends = frozenset(() if admit.ignore_eos else admit.sampling.ends)
        self.stops = frozenset(admit.stop_token_ids)
        self.endings = self.ends | self.stops

    @property
    def remaining(self) -> int:
        """Positions to compute before a token can be sampled."""
        return self.length - self.planned

    @property
    def num_output(self) -> int:
        """Tokens generated and known."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def usage(self) -> Usage:
        """What it took so far."""
        return Usage(self.prompt_tokens, self.num_output, self.cached_tokens)

    @property
    def is_in_flight(self) -> bool:
        """Whether a dispatched step has a row of it."""
        return self.flight is not None and not self.flight.landed

    @property
    def wants_scores(self) -> bool:
        """Whether log-probabilities of its prompt are still to be told."""
        wanted = self.admit.sampling.prompt_logprobs >= 0
        return wanted and self.scored < self.prompt_tokens - 1

    def targets(self, start: int, count: int) -> tuple[int, tuple[int, ...]]:
        """What to score in a row: from which of its positions on, and which tokens."""
        if not self.wants_scores:
            return 0, ()
        begin = max(start, self.scored)
        end = min(start + count, self.prompt_tokens - 1)
        if begin >= end:
            return 0, ()
        return begin - start, tuple(self.tokens[begin + 1 : end + 1])

    @property
    def needs_history(self) -> bool:
        """Whether a penalty or a grammar looks at the tokens so far."""
        sampling = self.admit.sampling
        return (
            sampling.grammar is not None
            or sampling.presence_penalty != 0
            or sampling.frequency_penalty != 0
            or sampling.repetition_penalty != 1
        )

    def is_ending(self, token: int, number: int) -> bool:
        """Whether output ``number`` (from 0), being ``token``, ends the answer."""
        if token in self.stops:
            return True
        return token in self.ends and number >= self.admit.sampling.min_tokens

    def lose_device(self) -> None:
        """Forget all that was on the device; tokens, usage and flight stay."""
        self.slot = None
        self.opened = self.fed = False
        self.pages = []
        self.copied_from = None
        self.room = self.done = self.planned = 0
        self.node = None
        self.published = self.own_pages_from = 0
        self.is_computing = False
        self.epoch += 1
