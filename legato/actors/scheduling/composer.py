"""The composer: fills one step's token budget with rows.

Running decodes first, then chunks of prompts. Of the prompts, the most urgent priority
(as raised by waiting) and in it the highest response ratio goes first: a short prompt
slips in between the chunks of a long one, and the long one's growing wait makes sure
that it gets its turn.

The bound: a step computes at most ``max_step_tokens`` positions, and D running streams
get a row each in ceil(D / max_step_tokens) steps, whatever the prompts. Where a step
takes the longer the more it computes, prompts beside decodes get less than what is
left: running streams then wait for more steps that are a little longer, not for a few
that are three times as long.
"""

from ...protocol.steps import SlotOpen, StepRow
from .ledger import Flight
from .pressure import Pressure
from .roster import Roster
from .sequence import Home, Sequence
from .starts import Starts
from .storage import Storage

MAX_LONG_PROMPTS = 4
"""Prompts longer than a step that are computed at once. More would hold their pages
longer without any of them being done earlier."""

SHARED = 3 / 4
"""What prompts and decodes together may take of the time of a full step of prompts."""

STRETCH = 5 / 8
"""How much longer than many decodes alone a step may take in any case."""

NO_PAGES: tuple[int, ...] = ()


class Composer:
    """Rows for a step.

    Args:
        roster: Homes of the sequences.
        storage: Slots and pages.
        pressure: Preemption.
        starts: The way in.
        step_tokens: Positions in a step.
        decode_weight: The runner's.
        patience_s: Seconds of waiting that are worth one priority.
    """

    def __init__(
        self,
        roster: Roster,
        storage: Storage,
        pressure: Pressure,
        starts: Starts,
        *,
        step_tokens: int,
        decode_weight: float,
        patience_s: float,
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._pressure = pressure
        self._starts = starts
        self._step_tokens = step_tokens
        self._decode_weight = decode_weight
        self._patience_s = patience_s

    def fill(self, draft: Flight, now_s: float) -> None:
        """Add all rows that the budget, the pages and the order allow."""
        self._pressure.begin_step()
        self._add_decodes(draft)
        if draft.num_rows and self._decode_weight:
            draft.budget = min(draft.budget, self._tokens_beside(draft.num_rows))
        while draft.budget > 0:
            self._start_more(now_s)
            sequence = self._next_prompt(now_s)
            if sequence is None or not self._add_chunk(draft, sequence):
                return

    def _tokens_beside(self, decodes: int) -> int:
        """How many tokens of prompts may make a step of decodes longer."""
        taken = decodes * self._decode_weight
        return int(max(self._step_tokens * SHARED - taken, taken * STRETCH, 1))

    def _add_decodes(self, draft: Flight) -> None:
        """Give the running decodes a row each."""
        decodes = self._roster.decode
        out = decodes.hold_back(draft.budget)
        grown: list[tuple[Sequence, int]] = []
        last: list[Sequence] = []
        for sequence in decodes.take_due():
            if sequence.room == 0 and sequence not in out:
                page = self._next_page(sequence)
                if page is None:
                    decodes.skip(sequence)
                    out.add(sequence)
                else:
                    grown.append((sequence, page))
            if sequence.left == 1 and sequence not in out:
                last.append(sequence)
            else:
                decodes.file(sequence)
        draft.add_cast(decodes.begin(draft, out))
        for sequence, page in grown:
            # Else it was preempted for one behind it.
            if sequence.home is Home.DECODE and sequence.slot is not None:
                draft.grown.append((sequence.slot, page))
        for sequence in last:
            if sequence.home is Home.DECODE:
                draft.last.append(sequence)
                self._roster.move(sequence)

    def _next_page(self, sequence: Sequence) -> int | None:
        """Give a decode its next page, or nothing; charge what it has generated."""
        page = self._storage.grow_by_one(sequence)
        if page is None and self._pressure.make_room(1, sequence, started=True):
            page = self._storage.grow_by_one(sequence)
        if page is not None:
            self._roster.charge(sequence)
        return page

    def _start_more(self, now_s: float) -> None:
        """Start sequences until a short prompt is ready to be computed."""
        prefill = self._roster.prefill
        while True:
            if any(other.remaining <= self._step_tokens for other in prefill):
                return
            many = len(prefill) >= MAX_LONG_PROMPTS
            longest = self._step_tokens if many else 1 << 62
            if not self._starts.start(now_s, longest=longest):
                return

    def _next_prompt(self, now_s: float) -> Sequence | None:
        prefill = self._roster.prefill
        top = min((sequence.priority for sequence in prefill), default=0)
        best = None
        best_rank = (0, 0.0)
        for sequence in prefill:
            wait_s = now_s - sequence.queued_s
            level = sequence.priority - int(wait_s / self._patience_s)
            rank = (max(level, top), -wait_s / sequence.remaining)
            if best is None or rank < best_rank:
                best, best_rank = sequence, rank
        return best

    def _add_chunk(self, draft: Flight, sequence: Sequence) -> bool:
        """Add as much of a prompt as fits; say whether anything did."""
        storage, start = self._storage, sequence.planned
        count = min(draft.budget, sequence.remaining)
        missing = storage.pages_for(start + count) - len(sequence.pages)
        if missing > 0 and not self._pressure.make_room(
            missing, sequence, started=True
        ):
            room = sequence.room + storage.available * storage.page_size
            count = min(count, room)
            missing = storage.pages_for(start + count) - len(sequence.pages)
        if count <= 0:
            return False
        if not sequence.opened:
            self._open(draft, sequence)
        pages = storage.grow(sequence, missing) if missing > 0 else NO_PAGES
        assert sequence.slot is not None, "a prompt has no slot"
        tokens = tuple(sequence.tokens[start : start + count])
        samples = start + count == len(sequence.tokens)
        begin, targets = sequence.targets(start, count)
        row = StepRow(sequence.slot, start, tokens, samples, pages, targets, begin)
        draft.add(sequence, row)
        if samples:
            self._roster.move(sequence)
        return samples or draft.budget <= 0

    def _open(self, draft: Flight, sequence: Sequence) -> None:
        assert sequence.slot is not None, "a sequence is opened without a slot"
        history = tuple(sequence.tokens) if sequence.needs_history else ()
        draft.opens.append(
            SlotOpen(
                sequence.slot,
                sequence.admit.sampling,
                sequence.prompt_tokens,
                tuple(sequence.pages),
                history,
            )
        )
        if sequence.copied_from is not None:
            # The flight keeps the source until the copy is made.
            target = sequence.pages[sequence.own_pages_from]
            draft.copies.append((sequence.copied_from, target))
            draft.pages.append(sequence.copied_from)
            sequence.copied_from = None
        sequence.opened = True
