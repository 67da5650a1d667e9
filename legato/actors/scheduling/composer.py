"""The composer: fills one step's token budget with rows.

Running decodes first, then chunks of prompts. Of the prompts, the most urgent priority
(as raised by waiting) and in it the highest response ratio goes first: a short prompt
slips in between the chunks of a long one, and the long one's growing wait makes sure
that it gets its turn.

The bound: a step computes at most ``max_step_tokens`` positions, and D running streams
get a row each in ceil(D / max_step_tokens) steps, whatever the prompts.
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

NO_TOKENS: tuple[int, ...] = ()
NO_PAGES: tuple[int, ...] = ()


class Composer:
    """Rows for a step.

    Args:
        roster: Homes of the sequences.
        storage: Slots and pages.
        pressure: Preemption.
        starts: The way in.
        step_tokens: Positions in a step.
        patience_s: Seconds of waiting that are worth one priority.
    """

    def __init__(
        self,
        roster: Roster,
        storage: Storage,
        pressure: Pressure,
        starts: Starts,
        step_tokens: int,
        patience_s: float,
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._pressure = pressure
        self._starts = starts
        self._step_tokens = step_tokens
        self._patience_s = patience_s

    def fill(self, draft: Flight, now_s: float) -> None:
        """Add all rows that the budget, the pages and the order allow."""
        self._pressure.begin_step()
        self._add_decodes(draft)
        while draft.budget > 0:
            self._start_more(now_s)
            sequence = self._next_prompt(now_s)
            if sequence is None or not self._add_chunk(draft, sequence):
                return

    def _add_decodes(self, draft: Flight) -> None:
        """Give the running decodes a row each.

        ``Flight.add`` in line: a call a row would be a third of the loop's time.
        """
        decode, ready = self._roster.decode, Home.DECODE
        crowded = len(decode) > draft.budget
        budget = draft.budget
        add_row, add_sequence = draft.rows.append, draft.sequences.append
        for sequence in list(decode):
            if budget <= 0:
                break
            if sequence.home is not ready:
                continue  # preempted for one before it
            position, unknown = sequence.planned, sequence.unknown
            slot, pages = sequence.slot, NO_PAGES
            assert slot is not None, "a decode has no slot"
            if sequence.room == 0:
                pages = self._next_page(sequence)
                if not pages:
                    continue
            tokens = NO_TOKENS if unknown else (sequence.tokens[-1],)
            add_row(StepRow(slot, position, tokens, True, pages))
            add_sequence(sequence)
            budget -= 1
            sequence.planned = position + 1
            sequence.unknown = unknown + 1
            sequence.room -= 1
            sequence.left -= 1
            sequence.flight = draft
            if sequence.left == 0:
                self._roster.move(sequence)
            elif crowded:
                # Those left out now come first in the next step.
                del decode[sequence]
                decode[sequence] = None
        draft.num_tokens += draft.budget - budget
        draft.num_samples += draft.budget - budget
        draft.budget = budget

    def _next_page(self, sequence: Sequence) -> tuple[int, ...]:
        """Give a decode its next page, or nothing; charge what it has generated."""
        if not self._pressure.make_room(1, sequence, started=True):
            return NO_PAGES
        self._roster.charge(sequence)
        return self._storage.grow(sequence, 1)

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
        draft.add(sequence, StepRow(sequence.slot, start, tokens, samples, pages))
        if samples or sequence.remaining == 1:
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
