"""The whole planner under random use, on a device that checks every plan.

``LEGATO_MACHINE_STEPS`` multiplies the length of the runs, for soaking.
"""

import os
from collections.abc import Iterator

from hypothesis import settings, strategies
from hypothesis import stateful as machine
from hypothesis.stateful import initialize, invariant, precondition, rule

from legato.actors import scheduling
from legato.actors.scheduling import Planner, PlannerSettings
from legato.gpu.fake import FakeRunner, fake_next
from legato.protocol.errors import Overloaded
from legato.protocol.requests import Admit, Cancel, Credit, FinishReason, StepOutput
from legato.protocol.steps import RowSampling, RunnerLimits, StepPlan, StepResult

SCALE = int(os.environ.get("LEGATO_MACHINE_STEPS", "1"))
CONTEXT = 40
VOCABULARY = 40
END = 7
TEXTS = tuple(tuple((i * i * k + k) % VOCABULARY for i in range(40)) for k in (3, 5))
STRATEGIES = (
    scheduling.Continuous(),
    scheduling.Dynamic(max_batch=3, max_delay_s=0.2),
    scheduling.Static(size=3, max_wait_s=0.3),
    scheduling.Auto(),
)


class CheckingRunner:
    """A fake device that refuses any plan that breaks the step fence."""

    def __init__(self, limits: RunnerLimits) -> None:
        self.limits = limits
        self.device = FakeRunner(limits)
        self.tables: dict[int, list[int]] = {}
        self.texts: dict[int, list[int]] = {}
        self.flying: list[tuple[StepPlan, set[int], set[int], StepResult]] = []
        self.next_step = 0

    def launch(self, plan: StepPlan) -> None:
        assert plan.step == self.next_step
        assert plan.slots
        assert plan.num_tokens <= self.limits.max_step_tokens
        slots = list(plan.slots)
        assert len(set(slots)) == len(slots)
        self.next_step += 1
        busy_pages = {page for _, pages, _, _ in self.flying for page in pages}
        busy_slots = {slot for _, _, slots, _ in self.flying for slot in slots}
        for opened in plan.opens:
            assert opened.slot not in busy_slots, "a slot changed hands in flight"
            self.tables[opened.slot] = list(opened.pages)
        written = {target for _, target in plan.copies}
        for row in plan.rows:
            written.update(row.pages)
            self.tables[row.slot].extend(row.pages)
        for slot, page in plan.grown:
            assert slot in plan.decodes
            written.add(page)
            self.tables[slot].append(page)
        assert not written & busy_pages, "a page was reused under a step in flight"
        assert not written & {source for source, _ in plan.copies}
        touched = {page for slot in slots for page in self.tables[slot]}
        touched |= written | {source for source, _ in plan.copies}
        result = self.device.launch(plan).result
        self.flying.append((plan, touched, set(slots), result))
        self.check_sharing(slots)

    def check_sharing(self, slots: list[int]) -> None:
        """A page in two tables of one step stands at the same place, read only."""
        places: dict[int, int] = {}
        for slot in slots:
            for place, page in enumerate(self.tables[slot]):
                assert places.setdefault(page, place) == place

    def land(self) -> StepResult:
        return self.flying.pop(0)[3]


def truth(admit: Admit) -> Iterator[int]:
    history = list(admit.prompt)
    for number in range(admit.max_tokens):
        token = fake_next(history, VOCABULARY)
        if number < admit.sampling.min_tokens and token in admit.sampling.ends:
            token = (token + 1) % VOCABULARY
        history.append(token)
        yield token
        if token in admit.sampling.ends and not admit.ignore_eos:
            return


class PlannerMachine(machine.RuleBasedStateMachine):
    """Everything that can happen to a planner, in any order."""

    @initialize(
        slots=strategies.integers(1, 5),
        pages=strategies.sampled_from([10, 14, 40]),
        budget=strategies.sampled_from([2, 7, 24]),
        depth=strategies.sampled_from([1, 2, 2, 3]),
        cache=strategies.booleans(),
        batching=strategies.sampled_from(STRATEGIES),
    )
    def build(self, slots, pages, budget, depth, cache, batching) -> None:
        self.limits = RunnerLimits(
            num_slots=slots,
            num_pages=pages,
            page_size=4,
            max_context=CONTEXT,
            max_step_tokens=24,
            vocab_size=VOCABULARY,
            page_bytes=0,
        )
        self.planner = Planner(
            self.limits,
            PlannerSettings(
                max_step_tokens=budget,
                depth=depth,
                prefix_cache=cache,
                batching=batching,
                patience_s=0.5,
                max_waiting=8,
            ),
        )
        self.device = CheckingRunner(self.limits)
        self.depth = depth
        self.now_s = 0.0
        self.admits: dict[int, Admit] = {}
        self.tokens: dict[int, list[int]] = {}
        self.reasons: dict[int, FinishReason] = {}
        self.cancelled: set[int] = set()
        self.faulty: set[int] = set()
        self.next_request = 0

    @rule(
        text=strategies.sampled_from(TEXTS),
        length=strategies.integers(1, 30),
        twist=strategies.sampled_from([(), (), (1,), (2, 2, 2)]),
        max_tokens=strategies.integers(1, 12),
        twins=strategies.sampled_from([1, 1, 1, 3]),
        priority=strategies.integers(0, 2),
        tenant=strategies.sampled_from("ab"),
        min_tokens=strategies.sampled_from([0, 3]),
        ignore_eos=strategies.booleans(),
        emitted=strategies.sampled_from([0, 0, 2]),
    )
    def admit(self, text, length, twist, max_tokens, twins, emitted, **fields) -> None:
        prompt = (text[:length] + twist)[: CONTEXT - max_tokens]
        sampling = RowSampling(0.0, min_tokens=fields.pop("min_tokens"), ends=(END,))
        for _ in range(twins):
            request = self.next_request
            self.next_request += 1
            admit = Admit(request, prompt, max_tokens, sampling, **fields)
            before = tuple(truth(admit))[:emitted]
            admit = Admit(
                request, prompt, max_tokens, sampling, emitted=before, **fields
            )
            try:
                self.planner.admit(admit, self.now_s)
            except Overloaded:
                assert self.planner.stats(self.now_s).waiting >= 8
                return
            self.admits[request] = admit
            self.tokens[request] = list(before)

    @precondition(lambda self: self.admits)
    @rule(pick=strategies.integers(0, 1000), stop=strategies.booleans())
    def cancel(self, pick: int, stop: bool) -> None:
        request = list(self.admits)[pick % len(self.admits)]
        if request not in self.reasons:
            self.cancelled.add(request)
        self.planner.cancel(Cancel(request, "stop" if stop else "cancelled"), 0.0)

    @precondition(lambda self: self.admits)
    @rule(pick=strategies.integers(0, 1000), granted=strategies.booleans())
    def credit(self, pick: int, granted: bool) -> None:
        request = list(self.admits)[pick % len(self.admits)]
        self.planner.credit(Credit(request, granted), self.now_s)

    @rule(batching=strategies.sampled_from(STRATEGIES))
    def change_strategy(self, batching) -> None:
        self.planner.set_batching(batching, self.now_s)

    @rule(rounds=strategies.integers(1, 12))
    def run(self, rounds: int) -> None:
        """Keep the device as busy as the depth allows."""
        for _ in range(rounds):
            while len(self.device.flying) < self.depth and self.launch():
                pass
            if not self.land():
                self.now_s += 0.05

    @rule()
    def plan(self) -> None:
        self.launch()

    @rule()
    def commit(self) -> None:
        self.land()

    def launch(self) -> bool:
        self.now_s += 0.003
        plan = self.planner.plan(self.now_s)
        if plan is None:
            return False
        self.device.launch(plan)
        return True

    def land(self) -> bool:
        if not self.device.flying:
            return False
        self.now_s += 0.003
        self.note(self.planner.commit(self.device.land(), self.now_s))
        return True

    @precondition(lambda self: self.device.flying)
    @rule(pick=strategies.integers(0, 100))
    def spoil(self, pick: int) -> None:
        """One row of the oldest step brings unusable logits."""
        plan, pages, slots, result = self.device.flying[0]
        if not result.tokens:
            return
        faults = {pick % len(result.tokens): "NaN"}
        spoiled = StepResult(result.step, result.tokens, faults=faults)
        self.device.flying[0] = (plan, pages, slots, spoiled)

    @rule()
    def take_output(self) -> None:
        output = self.planner.take_output(self.now_s)
        if output is not None:
            assert output.emitted == ()
            self.note(output)

    @rule()
    def lose_device(self) -> None:
        self.planner.lose_device(self.now_s)
        self.device = CheckingRunner(self.limits)
        assert self.planner.stats(self.now_s).pages_free == self.limits.num_pages

    def note(self, output: StepOutput) -> None:
        for emitted in output.emitted:
            assert emitted.request not in self.reasons, "a token after the end"
            self.tokens[emitted.request].append(emitted.token)
        for ended in output.ended:
            assert ended.request not in self.reasons, "two ends"
            self.reasons[ended.request] = ended.reason
            tokens = self.tokens[ended.request]
            assert ended.usage.output_tokens == len(tokens)
            self.check_answer(ended.request, tokens, ended.reason)

    def check_answer(self, request, tokens, reason) -> None:
        whole = list(truth(self.admits[request]))
        if reason is FinishReason.LENGTH:
            assert tokens == whole
        elif request in self.cancelled or reason is FinishReason.ERROR:
            assert tokens == whole[: len(tokens)]
        else:
            assert reason is FinishReason.STOP
            assert tokens == whole
            assert tokens[-1] == END

    @invariant()
    def pages_are_conserved(self) -> None:
        if not hasattr(self, "planner"):
            return
        stats = self.planner.stats(self.now_s)
        total = stats.pages_free + stats.pages_cached + stats.pages_used
        assert total == stats.pages_total
        assert stats.admitted - stats.ended == self.planner.num_live
        assert stats.waiting_tokens >= 0

    def teardown(self) -> None:
        """Let everything end: nothing may be stuck, leak, or be missing."""
        if not hasattr(self, "planner"):
            return
        for request in self.admits:
            self.planner.credit(Credit(request, True), self.now_s)
        for _ in range(3000):
            self.take_output()
            if not self.planner.num_live and not self.device.flying:
                break
            self.run(1)
        assert set(self.reasons) == set(self.admits)
        stats = self.planner.stats(self.now_s)
        assert stats.pages_used == 0
        assert stats.slots_free == self.limits.num_slots
        assert (stats.waiting, stats.waiting_tokens, stats.paused) == (0, 0, 0)


PlannerMachine.TestCase.settings = settings(
    max_examples=8 * SCALE,
    stateful_step_count=25,
    deadline=None,
    derandomize=SCALE == 1,
)
TestPlannerMachine = PlannerMachine.TestCase
