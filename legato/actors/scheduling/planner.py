"""The planner: what runs in the next step, and what the last one meant.

Pure and synchronous: no I/O, no clock of its own; every call carries the time. It owns
all sequences; its rooms own one aspect each:

    admission    who is refused at the door      composer    which rows fill a step
    waiting      who is next (order, tenants)    ledger      steps without a result
    starts       who gets a slot (batching)      settlement  what a result means
    storage      slots and pages (pages, prefix) pressure    who gives them back
    twins        who shares whose prefill        deadlines   whose time is up
    roster       where each sequence is          pace        rates of the last seconds
    decodes      who gets a row in every step    forecast    when a turn can come
    amendment    what changes under way
"""

from ...protocol.amend import Amend
from ...protocol.errors import DeadlineExceeded, Failure
from ...protocol.requests import Admit, Cancel, Credit, FinishReason, StepOutput
from ...protocol.steps import RunnerLimits, StepPlan, StepResult
from .admission import Admission
from .amendment import Amendment
from .batching import Batching
from .composer import Composer
from .deadlines import Deadlines
from .forecast import Forecast
from .ledger import Ledger
from .pace import Pace
from .pressure import Pressure
from .roster import Roster
from .sequence import Home, Sequence
from .settings import PlannerSettings
from .settlement import Settlement
from .starts import Starts
from .stats import PlannerStats
from .storage import Storage
from .twins import Twins


class Planner:
    """Continuous batching over a shared, paged cache.

    A running stream gets a row in every step while at most ``max_step_tokens`` run,
    and in every ceil(running / max_step_tokens)-th step beyond; a step never computes
    more than ``max_step_tokens`` positions. So no prompt, however long, delays a stream
    by more than one full step.

    Args:
        limits: The runner's.
        settings: How to plan.
    """

    def __init__(self, limits: RunnerLimits, settings: PlannerSettings) -> None:
        self._limits = limits
        tokens = self._step_tokens = min(
            settings.max_step_tokens, limits.max_step_tokens
        )
        depth, patience_s = settings.depth, settings.patience_s
        pace = self._pace = Pace()
        roster = self._roster = Roster(patience_s)
        ledger = self._ledger = Ledger(depth)
        caches = settings.prefix_cache
        storage = self._storage = Storage(limits, ledger, prefix_cache=caches)
        twins = self._twins = Twins(limits.page_size)
        pressure = self._pressure = Pressure(roster, storage, ledger, twins)
        starts = self._starts = Starts(
            roster, storage, pressure, twins, pace, settings.batching
        )
        self._composer = Composer(
            *(roster, storage, pressure, starts),
            step_tokens=tokens,
            decode_weight=limits.decode_weight,
            patience_s=patience_s,
        )
        self._settlement = Settlement(roster, storage, twins, pressure)
        forecast = Forecast(roster, storage, pace, tokens, depth)
        self._admission = Admission(limits, settings, roster, pace, forecast)
        self._amendment = Amendment(limits, roster, ledger, self._settlement)
        self._deadlines = Deadlines(roster.live)
        self._num_admitted = self._num_losses = 0
        self._num_steps = self._num_rows = self._num_tokens = 0

    def admit(self, request: Admit, now_s: float) -> None:
        """Take a request in.

        Raises:
            InvalidRequest: It is malformed, or asks for more than can ever fit.
            ContextOverflow: Its prompt can never fit.
            Overloaded: Too much is waiting.
            DeadlineExceeded: Its deadline cannot be met.
        """
        self._admission.check(request, now_s)
        share = self._roster.tenants.enter(request.tenant)
        sequence = Sequence(request, self._num_admitted, now_s, share)
        self._num_admitted += 1
        self._pace.arrivals.add(1, now_s)
        self._roster.enter(sequence)
        if self._settlement.end_if_ending(sequence):
            return
        if len(sequence.tokens) >= sequence.max_length:
            self._settlement.end(sequence, FinishReason.LENGTH)
            return
        self._deadlines.add(request)

    def cancel(self, cancel: Cancel, now_s: float) -> None:
        """End a request; tokens still in flight are dropped.

        An unknown or ended request is ignored. ``Ended`` comes with the next output.
        """
        sequence = self._roster.live.get(cancel.request)
        if sequence is not None:
            stop = cancel.reason == "stop"
            reason = FinishReason.STOP if stop else FinishReason.CANCELLED
            self._settlement.end(sequence, reason)

    def credit(self, credit: Credit, now_s: float) -> None:
        """Pause a request, or let it run again.

        Tokens in flight are still emitted. A paused request keeps its pages while
        nobody needs them.
        """
        sequence = self._roster.live.get(credit.request)
        if sequence is None or sequence.paused is not credit.granted:
            return
        sequence.paused = not credit.granted
        if sequence.paused:
            self._pressure.release_followers(sequence)
        if sequence.home is Home.DRAINING or sequence.home is Home.FINISHING:
            return
        self._roster.move(sequence)
        if sequence.slot is not None and not sequence.paused:
            self._pressure.watch(sequence)
            self._twins.promise(sequence)

    def amend(self, amend: Amend) -> None:
        """Change a request; one that has said enough ends with the next output."""
        self._amendment.apply(amend)

    def plan(self, now_s: float) -> StepPlan | None:
        """Compose the next step, or say None: nothing can run now.

        May be called again before the results of up to ``depth - 1`` earlier plans.
        """
        self._expire(now_s)
        if self._ledger.is_full:
            return None
        draft = self._ledger.draft(self._step_tokens)
        self._composer.fill(draft, now_s)
        self._pace.turns.watch(now_s, waiting=len(self._roster.fresh) > 0)
        if not draft.num_rows:
            return None
        self._ledger.launch(draft)
        self._num_steps += 1
        self._num_rows += draft.num_rows
        self._num_tokens += draft.num_tokens
        return draft.plan()

    def commit(self, result: StepResult, now_s: float) -> StepOutput:
        """Apply the result of the oldest plan.

        Raises:
            ValueError: It is the result of another step.
        """
        flight = self._ledger.land(result)
        self._pace.steps.add(result.finished_s - result.started_s)
        output = self._settlement.settle(flight, result)
        self._storage.land(flight)
        flight.close()
        return output

    def take_output(self, now_s: float) -> StepOutput | None:
        """Endings that came without a step: cancelled, past a deadline."""
        self._expire(now_s)
        return self._settlement.take(now_s)

    def wake_at(self, now_s: float) -> float | None:
        """When an answer may change though no message comes, or None: never."""
        times = [self._deadlines.next_s]
        if self._roster.fresh:
            times.append(self._starts.gate.wake_at(self._starts.load(now_s)))
        return min((when for when in times if when is not None), default=None)

    def lose_device(self, now_s: float) -> None:
        """Begin anew on an empty device; steps in flight are lost.

        Every live sequence goes on from the tokens emitted so far.
        """
        self._num_losses += 1
        self._ledger.clear()
        self._storage.clear()
        self._twins.clear()
        self._pressure.clear()
        for sequence in self._roster.live.values():
            self._roster.take(sequence)
            sequence.lose_device()
            sequence.left += sequence.length - len(sequence.tokens)
            sequence.length = len(sequence.tokens)
            sequence.flight = None
            self._roster.place(sequence)
        self._roster.decode.clear()

    def fail_all(self, failure: Failure, now_s: float) -> StepOutput:
        """End every live request with a failure; the planner is empty afterwards."""
        self.lose_device(now_s)
        for sequence in list(self._roster.live.values()):
            self._settlement.end(sequence, FinishReason.ERROR, failure)
        return self._settlement.take(now_s) or StepOutput(finished_s=now_s)

    def set_batching(self, batching: Batching, now_s: float) -> None:
        """Change the strategy; running sequences are not touched."""
        self._starts.set_batching(batching)

    @property
    def num_live(self) -> int:
        """Requests without a terminal event."""
        return len(self._roster.live)

    @property
    def num_in_flight(self) -> int:
        """Plans without a result."""
        return self._ledger.num_flights

    @property
    def has_work(self) -> bool:
        """Whether some sequence could use the device now."""
        roster = self._roster
        if roster.decode or roster.prefill or roster.resuming:
            return True
        return len(roster.fresh) > 0 and not self._starts.is_collecting

    def stats(self, now_s: float) -> PlannerStats:
        """Read all counters; the cost is linear in the sequences with a slot."""
        roster, pool, starts = self._roster, self._storage.pool, self._starts
        oldest_s = roster.fresh.oldest_s
        roster.decode.bring_all()
        seated = [s for s in roster.live.values() if s.slot is not None]
        return PlannerStats(
            running=roster.num_running,
            waiting=roster.num_unstarted,
            resuming=len(roster.resuming) + len(roster.draining),
            paused=sum(s.paused for s in roster.live.values()),
            waiting_tokens=roster.unstarted_tokens,
            slots_free=self._storage.num_free_slots,
            slots_total=self._limits.num_slots,
            pages_free=pool.num_free,
            pages_cached=pool.num_cached,
            pages_used=pool.num_used,
            pages_peak=pool.peak_used,
            pages_fenced=self._ledger.num_fenced,
            pages_total=pool.num_pages,
            fragmentation=_fragmentation(seated),
            steps=self._num_steps,
            steps_in_flight=self._ledger.num_flights,
            planned_rows=self._num_rows,
            planned_tokens=self._num_tokens,
            emitted_tokens=self._settlement.num_emitted,
            dropped_tokens=self._settlement.num_dropped,
            preemptions=self._pressure.num_preempted,
            device_losses=self._num_losses,
            prompt_tokens=starts.prompt_tokens,
            prefix_hit_tokens=starts.hit_tokens,
            admitted=self._num_admitted,
            ended=self._num_admitted - len(roster.live),
            strategy=starts.gate.strategy,
            strategy_reason=starts.gate.reason,
            arrivals_per_s=self._pace.arrivals.per_s(now_s),
            oldest_wait_s=0.0 if oldest_s is None else max(now_s - oldest_s, 0.0),
            step_tokens=self._step_tokens,
        )

    def _expire(self, now_s: float) -> None:
        while (expired := self._deadlines.take(now_s)) is not None:
            sequence, why = expired
            failure = Failure(DeadlineExceeded.code, why)
            self._settlement.end(sequence, FinishReason.ERROR, failure)


def _fragmentation(seated: list[Sequence]) -> float:
    held = sum(sequence.planned for sequence in seated)
    room = sum(sequence.room for sequence in seated)
    return room / (held + room) if room else 0.0
