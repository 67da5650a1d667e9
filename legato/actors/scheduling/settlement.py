"""The settlement: what a step's result means to its sequences.

Every sampled token is either emitted to its request or dropped on purpose (the request
ended meanwhile) and counted; never both, never neither.
"""

from collections.abc import Iterable

from ...protocol.errors import EngineFailed, Failure
from ...protocol.requests import Ended, FinishReason, StepOutput
from ...protocol.steps import SampledToken, StepResult, StepRow, TokenLogprobs
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
        requests: list[int] = []
        emitted: list[int] = []
        logprobs: list[tuple[int, TokenLogprobs]] = []
        finishing = Home.FINISHING
        for row, sequence, sampled in zip(
            flight.rows, flight.sequences, _by_row(flight, result), strict=True
        ):
            # A sequence cannot get another slot before this row's result.
            usual = not sequence.is_computing and sequence.slot is not None
            if not usual and not self._settle_unusual(flight, row, sequence, sampled):
                continue
            if sampled is None:
                continue
            if sampled.fault:
                self._fault(sequence, sampled.fault)
                continue
            token, tokens = sampled.token, sequence.tokens
            tokens.append(token)
            sequence.unknown -= 1
            if sampled.logprobs is not None:
                logprobs.append((len(emitted), sampled.logprobs))
            requests.append(sequence.request)
            emitted.append(token)
            if token in sequence.endings and self.end_if_ending(sequence):
                continue
            if sequence.home is finishing and len(tokens) >= sequence.max_length:
                self.end(sequence, FinishReason.LENGTH)
            elif not usual:
                self._drain(flight, sequence)
        self.num_emitted += len(emitted)
        return StepOutput(
            tuple(requests),
            tuple(emitted),
            self._take_ended(),
            result.finished_s,
            tuple(logprobs),
        )

    def _settle_unusual(
        self,
        flight: Flight,
        row: StepRow,
        sequence: Sequence,
        sampled: SampledToken | None,
    ) -> bool:
        """Handle a chunk of a prompt, and a row whose sequence lost its slot since.

        Returns:
            Whether the sequence still lives.
        """
        if sequence.home is Home.ENDED:
            self.num_dropped += sampled is not None
            return False
        if sequence.slot is not None:
            if sampled is None or not sampled.fault:
                sequence.done = row.start + row.num_tokens
                self._publish(sequence, prompt_done=row.samples)
                sequence.is_computing = not row.samples
        elif sampled is None:
            self._drain(flight, sequence)
        return True

    def _drain(self, flight: Flight, sequence: Sequence) -> None:
        """Let a sequence that lost its slot line up after its last result."""
        if sequence.home is Home.DRAINING and sequence.flight is flight:
            self._roster.move(sequence)

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


def _by_row(flight: Flight, result: StepResult) -> Iterable[SampledToken | None]:
    """What each row sampled; a row that does not sample has None."""
    if len(flight.rows) == len(result.sampled):
        return result.sampled
    samples = iter(result.sampled)
    return [next(samples) if row.samples else None for row in flight.rows]
