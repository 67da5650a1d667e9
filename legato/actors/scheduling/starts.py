"""Starts: which waiting sequence gets a slot, and when.

The next in order starts or nobody does: a sequence that does not fit yet is not passed
by smaller ones behind it, or it would wait for ever.
"""

from .batching import Batching, Gate, Load, open_gate
from .pace import Pace
from .prefix import Match
from .pressure import Pressure
from .roster import Roster
from .sequence import Home, Sequence
from .storage import Storage
from .twins import Twins

STEPS_OF_HEADROOM = 4
"""Pages are left for so many steps of the running decodes: a sequence that starts only
to be preempted at once wastes its prefill. More would keep pages idle and gains
nothing: 4, 16 and 64 steps brought 38, 40 and 33 preemptions in 3,000 requests on a
pool half as large as the load would take."""

STEPS_TO_LOOK_AGAIN = 16
"""Steps between two look-ups of a sequence that waits for room."""


class Starts:
    """The way from waiting to running.

    Args:
        roster: Homes of the sequences.
        storage: Slots and pages.
        pressure: Preemption.
        twins: Who waits for whose prefill.
        pace: Rates.
        batching: The strategy to begin with.
    """

    def __init__(
        self,
        roster: Roster,
        storage: Storage,
        pressure: Pressure,
        twins: Twins,
        pace: Pace,
        batching: Batching,
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._pressure = pressure
        self._twins = twins
        self._pace = pace
        self.gate: Gate = open_gate(batching)
        self._blocked: Sequence | None = None
        self._blocked_pages = 0
        self._blocked_steps = 0
        self.prompt_tokens = 0
        self.hit_tokens = 0
        self.num_started = 0
        self.is_collecting = False

    def set_batching(self, batching: Batching) -> None:
        """Change the strategy for what has not started yet."""
        self.gate = open_gate(batching)

    def load(self, now_s: float) -> Load:
        """What the gate may know."""
        roster = self._roster
        oldest_s = roster.fresh.oldest_s
        waiting = len(roster.fresh) + len(roster.following)
        arrivals = self._pace.arrivals.per_s(now_s)
        return Load(now_s, waiting, oldest_s, roster.num_unfinished, arrivals)

    def start(self, now_s: float, *, longest: int) -> bool:
        """Start the next sequence, if there is one, it may and it fits.

        Args:
            now_s: The clock.
            longest: A sequence with more tokens than this waits, for the sake of those
                whose long prompts are being computed.

        Returns:
            Whether it makes sense to ask for another.
        """
        sequence = self._next(now_s)
        if sequence is None or len(sequence.tokens) > longest:
            return False
        if self._is_blocked(sequence) or not self._pressure.make_slot(sequence):
            return False
        match = self._storage.find(sequence)
        # Who looks at every position of its prompt must compute them itself.
        twin = None if sequence.wants_scores else self._twins.find(sequence, match)
        if twin is not None:
            self._roster.take(sequence)
            self._roster.put(sequence, Home.FOLLOWING)
            self._twins.follow(sequence, twin, match)
            return True
        fitting = self._fit(sequence, match)
        if fitting is None:
            return False
        self._seat(sequence, fitting, now_s)
        return True

    def _next(self, now_s: float) -> Sequence | None:
        resuming = self._roster.resuming.peek(now_s)
        fresh = None
        if self._roster.fresh:
            self.is_collecting = self.gate.room(self.load(now_s)) <= 0
            if not self.is_collecting:
                fresh = self._roster.fresh.peek(now_s)
        if resuming is not None and (fresh is None or resuming[0] <= fresh[0]):
            fresh = resuming
        if fresh is None:
            return None
        level, sequence = fresh
        sequence.level = level
        return sequence

    def _is_blocked(self, sequence: Sequence) -> bool:
        """Whether it did not fit, and there is no more room now.

        Looking its tokens up in the prefix tree costs as much as they are long; while
        it stands at the head of the line that is paid once in ``STEPS_TO_LOOK_AGAIN``:
        meanwhile the tree may have learned more of it.
        """
        if (
            self._blocked is not sequence
            or self._storage.available >= self._blocked_pages
            or self._roster.num_running == 0
            or self._pressure.has_weaker(sequence)
        ):
            return False
        self._blocked_steps += 1
        return self._blocked_steps % STEPS_TO_LOOK_AGAIN != 0

    def _fit(self, sequence: Sequence, match: Match) -> Match | None:
        """Make room; say what of the cache to start with, or None: no room yet."""
        before = self._pressure.num_preempted
        needed = self._num_needed(sequence, match)
        self._pressure.make_room(needed, sequence, started=False)
        if self._pressure.num_preempted != before:
            # Who gave room may have held, or owed, what was counted on.
            match = self._storage.find(sequence)
        if match.tail is not None and not self._has_room(sequence, match):
            # The page to copy from takes room too; in a full pool that can be the last.
            match.tail, match.tail_tokens = None, 0
        if self._has_room(sequence, match):
            return match
        self._blocked = sequence
        self._blocked_pages = self._num_needed(sequence, match)
        return None

    def _has_room(self, sequence: Sequence, match: Match) -> bool:
        return self._storage.available >= self._num_needed(sequence, match)

    def _num_needed(self, sequence: Sequence, match: Match) -> int:
        """Pages that must be available: its own, and what the running ones lack."""
        storage, roster = self._storage, self._roster
        positions = min(len(sequence.tokens) + 1, sequence.max_length - 1)
        if self.gate.reserves:
            positions = sequence.max_length - 1
        needed = storage.pages_for(positions) - len(match.pages)
        for other in roster.prefill:
            missing = storage.pages_for(len(other.tokens)) - len(other.pages)
            needed += max(missing, 0)
        if not self._pressure.has_weaker(sequence):
            # Else there is someone to take pages from when the decodes need them.
            needed += len(roster.decode) * STEPS_OF_HEADROOM // storage.page_size
        return needed + storage.num_taken_by(match)

    def _seat(self, sequence: Sequence, match: Match, now_s: float) -> None:
        roster, storage = self._roster, self._storage
        roster.take(sequence)
        self._blocked = None
        if not sequence.started:
            sequence.started_s = now_s
            self.gate.start()
            roster.start(sequence)
            held = len(match.pages) * storage.page_size + match.tail_tokens
            sequence.cached_tokens = min(held, sequence.prompt_tokens)
            self.prompt_tokens += sequence.prompt_tokens
            self.hit_tokens += sequence.cached_tokens
            self.num_started += 1
            self._pace.started_tokens.add(len(sequence.tokens), now_s)
            self._pace.turns.add(len(sequence.tokens))
        storage.seat(sequence, match)
        roster.tenants.serve(sequence.share, sequence.remaining)
        if self.gate.reserves:
            missing = storage.pages_for(sequence.max_length - 1) - len(sequence.pages)
            storage.grow(sequence, max(missing, 0))
        roster.place(sequence)
        self._pressure.watch(sequence)
        self._twins.promise(sequence)
