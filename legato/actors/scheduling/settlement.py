"""The settlement: what a step's result means to its sequences.

Every sampled token is either emitted to its request or dropped on purpose (the request
ended meanwhile) and counted; never both, never neither.
"""

from ...protocol.errors import EngineFailed, Failure
from ...protocol.requests import Ended, FinishReason, Scored, StepOutput
from ...protocol.steps import StepResult, StepRow
from .ledger import Flight
from .pressure import Pressure
from .roster import Roster
from .sequence import Home, Sequence
from .storage import Storage
from .twins import Twins


class Settlement:
    """Results in, tokens and endings out.

    Args:
        roster: Homes of the sequences.
        storage: Slots and pages.
        twins: Who waits for whose prefill.
        pressure: Knows how to free a sequence's followers.
    """

    def __init__(
        self, roster: Roster, storage: Storage, twins: Twins, pressure: Pressure
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._twins = twins
        self._pressure = pressure
        self._ended: list[Ended] = []
        self._scored: list[Scored] = []
        self.num_emitted = 0
        self.num_dropped = 0

    def settle(self, flight: Flight, result: StepResult) -> StepOutput:
        """Apply a result: the decodes, then the rows, in the plan's order."""
        cast, tokens, logprobs = flight.cast, result.tokens, result.logprobs
        requests, kept = cast.requests, range(len(tokens))
        if flight.rows or flight.parted or result.faults:
            requests, kept = self._settle_mixed(flight, result)
            tokens = tuple([tokens[place] for place in kept])
        else:
            # Nearly every step: what comes in is what goes out.
            for text, token in zip(cast.texts, tokens, strict=True):
                text.append(token)
        if not cast.ends.isdisjoint(tokens):
            self._find_ends(flight, result)
        for sequence in flight.last:
            done = len(sequence.tokens) >= sequence.max_length
            if done and sequence.home is Home.FINISHING:
                self.end(sequence, FinishReason.LENGTH)
        for sequence in flight.parted.values():
            if sequence.home is Home.DRAINING and sequence.flight is flight:
                # This was its last result: it lines up again.
                self._roster.move(sequence)
        self.num_emitted += len(tokens)
        told = ()
        if logprobs:
            places = enumerate(kept)
            told = tuple([(n, logprobs[at]) for n, at in places if at in logprobs])
        scored, self._scored = tuple(self._scored), []
        ended, finished_s = self._take_ended(), result.finished_s
        return StepOutput(requests, tokens, ended, finished_s, told, scored)

    def _settle_mixed(
        self, flight: Flight, result: StepResult
    ) -> tuple[tuple[int, ...], list[int]]:
        """Apply a result that holds more than tokens of decodes.

        Returns:
            Whose tokens are emitted, and their places in the result.
        """
        cast, live = flight.cast, self._roster.live
        requests: list[int] = []
        kept: list[int] = []
        for place, request in enumerate(cast.requests):
            if request in flight.parted and request not in live:
                self.num_dropped += 1
            elif place in result.faults:
                self._fault(live[request], result.faults[place])
            else:
                cast.texts[place].append(result.tokens[place])
                requests.append(request)
                kept.append(place)
        place = len(cast)
        pairs = zip(flight.rows, flight.sequences, strict=True)
        for number, (row, sequence) in enumerate(pairs):
            if row.targets and sequence.home is not Home.ENDED:
                scores = result.scores[number]
                sequence.scored += len(scores)
                self._scored.append(Scored(sequence.request, scores))
            if self._settle_row(row, sequence, result, place):
                requests.append(sequence.request)
                kept.append(place)
            place += row.samples
        return tuple(requests), kept

    def _find_ends(self, flight: Flight, result: StepResult) -> None:
        """End the decodes that sampled an end."""
        cast = flight.cast
        for place, request in enumerate(cast.requests):
            if result.tokens[place] in cast.ends and place not in result.faults:
                sequence = self._roster.live.get(request)
                if sequence is not None:
                    self.end_if_ending(sequence)

    def _settle_row(
        self, row: StepRow, sequence: Sequence, result: StepResult, place: int
    ) -> bool:
        """Apply a chunk of a prompt; say whether it brought a token, at its place."""
        if sequence.home is Home.ENDED:
            self.num_dropped += row.samples
            return False
        fault = result.faults.get(place, "") if row.samples else ""
        # A sequence cannot get another slot before this row's result.
        if sequence.slot is not None and not fault:
            sequence.done = row.start + row.num_tokens
            self._publish(sequence, prompt_done=row.samples)
            sequence.is_computing = not row.samples
        if fault:
            self._fault(sequence, fault)
        elif row.samples:
            sequence.tokens.append(result.tokens[place])
            self.end_if_ending(sequence)
        return row.samples and not fault

    def take(self, now_s: float) -> StepOutput | None:
        """Endings that no step's result carries, or None."""
        if not self._ended:
            return None
        return StepOutput(ended=self._take_ended(), finished_s=now_s)

    def end(
        self,
        sequence: Sequence,
        reason: FinishReason,
        failure: Failure | None = None,
        *,
        end_token: bool = False,
    ) -> None:
        """End a live sequence in whatever home it is."""
        self._roster.take(sequence)
        if sequence.slot is not None:
            self._storage.vacate(sequence)
        sequence.slot = None
        self._roster.leave(sequence)
        self._pressure.release_followers(sequence)
        usage = sequence.usage
        ended = Ended(
            sequence.request,
            reason,
            usage,
            failure,
            end_token,
            sequence.queued_s,
            sequence.started_s,
        )
        self._ended.append(ended)

    def _publish(self, sequence: Sequence, *, prompt_done: bool) -> None:
        before = sequence.published
        self._storage.publish(sequence)
        if prompt_done:
            # Those who sample the same prompt copy its last page from here.
            self._storage.publish_tail(sequence)
        if sequence.published > before:
            for follower in self._twins.advance(sequence):
                self._roster.move(follower)

    def _fault(self, sequence: Sequence, fault: str) -> None:
        if sequence.slot is not None:
            self._storage.disown(sequence)
        failure = Failure(EngineFailed.code, fault)
        self.end(sequence, FinishReason.ERROR, failure)

    def end_if_ending(self, sequence: Sequence) -> bool:
        """End a sequence whose last known token is an end; say whether it was."""
        last = sequence.num_output - 1
        if last < 0 or not sequence.is_ending(sequence.tokens[-1], last):
            return False
        self.end(sequence, FinishReason.STOP, end_token=True)
        return True

    def _take_ended(self) -> tuple[Ended, ...]:
        ended = tuple(self._ended)
        self._ended.clear()
        return ended
