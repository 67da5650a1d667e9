"""The settlement: what a step's result means to its sequences.

Every sampled token is either emitted to its request or dropped on purpose (the request
ended meanwhile) and counted; never both, never neither.
"""

from ...protocol.errors import EngineFailed, Failure
from ...protocol.requests import Emitted, Ended, FinishReason, StepOutput
from ...protocol.steps import SampledToken, StepResult
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
        self.num_emitted = 0
        self.num_dropped = 0

    def settle(self, flight: Flight, result: StepResult) -> StepOutput:
        """Apply a result, in the order of the plan's rows."""
        emitted: list[Emitted] = []
        sampled = iter(result.sampled)
        for row, sequence, epoch in zip(
            flight.rows, flight.sequences, flight.epochs, strict=True
        ):
            sequence.in_flight -= 1
            token = next(sampled) if row.samples else None
            if sequence.home is Home.ENDED:
                self.num_dropped += token is not None
                continue
            if sequence.epoch == epoch:
                sequence.done = row.start + (len(row.tokens) or 1)
                sound = token is None or not token.fault
                if sound and (row.tokens or sequence.done >= sequence.publish_at):
                    self._publish(sequence, prompt_done=row.samples)
            if token is not None:
                self._accept(sequence, token, emitted)
            if sequence.home is Home.DRAINING and not sequence.in_flight:
                self._roster.move(sequence)
        self.num_emitted += len(emitted)
        return StepOutput(tuple(emitted), self._take_ended(), result.finished_s)

    def take(self, now_s: float) -> StepOutput | None:
        """Endings that no step's result carries, or None."""
        if not self._ended:
            return None
        return StepOutput((), self._take_ended(), now_s)

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
        self._roster.leave(sequence)
        self._pressure.release_followers(sequence)
        usage = sequence.usage
        ended = Ended(sequence.request, reason, usage, failure, end_token)
        self._ended.append(ended)

    def _publish(self, sequence: Sequence, *, prompt_done: bool) -> None:
        before = sequence.published
        self._storage.publish(sequence)
        if prompt_done and sequence.num_output == 0:
            # Those who sample the same prompt copy its last page from here.
            self._storage.publish_tail(sequence)
        if sequence.published > before:
            for follower in self._twins.advance(sequence):
                self._roster.move(follower)

    def _accept(
        self, sequence: Sequence, sampled: SampledToken, emitted: list[Emitted]
    ) -> None:
        if sampled.fault:
            self._storage.disown(sequence)
            failure = Failure(EngineFailed.code, sampled.fault)
            self.end(sequence, FinishReason.ERROR, failure)
            return
        token = sampled.token
        sequence.unknown -= 1
        sequence.tokens.append(token)
        sequence.share.used += 1
        emitted.append(Emitted(sequence.request, token, sampled.logprobs))
        if token in sequence.endings and self.end_if_ending(sequence):
            return
        if len(sequence.tokens) >= sequence.max_length:
            self.end(sequence, FinishReason.LENGTH)

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
