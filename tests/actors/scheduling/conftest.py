"""A planner on a fake device, stepped by hand."""

import pytest

from legato.actors.scheduling import Planner, PlannerSettings
from legato.gpu.fake import FakeRunner, fake_next
from legato.protocol.requests import Admit, Ended, StepOutput
from legato.protocol.steps import RowSampling, RunnerLimits, StepPlan, StepResult

LIMITS = RunnerLimits(
    num_slots=4,
    num_pages=32,
    page_size=4,
    max_context=64,
    max_step_tokens=16,
    vocab_size=64,
    page_bytes=0,
)
GREEDY = RowSampling(0.0)


def truth(admit: Admit) -> list[int]:
    """The answer, computed alone and from nothing but the definition."""
    history = list(admit.prompt)
    for number in range(admit.max_tokens):
        token = fake_next(history, LIMITS.vocab_size)
        history.append(token)
        if token in admit.sampling.ends and number >= admit.sampling.min_tokens:
            break
    return history[len(admit.prompt) :]


class Drive:
    """A planner on a fake device that can be stepped by hand."""

    def __init__(self, limits: RunnerLimits = LIMITS, **settings: object) -> None:
        self.limits = limits
        self.planner = Planner(limits, PlannerSettings(**settings))  # type: ignore
        self.device = FakeRunner(limits)
        self.results: list[StepResult] = []
        self.plans: list[StepPlan] = []
        self.tokens: dict[int, list[int]] = {}
        self.ended: dict[int, Ended] = {}
        self.admits: dict[int, Admit] = {}
        self.now_s = 0.0

    def admit(self, request: int, prompt: int | tuple[int, ...], *args, **fields):
        if isinstance(prompt, int):
            prompt = tuple((request * 7 + i) % 64 for i in range(prompt))
        admit = Admit(request, prompt, *args, **{"sampling": GREEDY, **fields})
        self.planner.admit(admit, self.now_s)
        self.admits[request] = admit
        return admit

    def truth(self, request: int) -> list[int]:
        return truth(self.admits[request])

    def plan(self):
        plan = self.planner.plan(self.now_s)
        if plan is not None:
            self.plans.append(plan)
            self.results.append(self.device.launch(plan).result)
        return plan

    def commit(self) -> StepOutput:
        output = self.planner.commit(self.results.pop(0), self.now_s)
        self.note(output)
        return output

    def note(self, output: StepOutput | None) -> None:
        if output is None:
            return
        for emitted in output.emitted:
            assert emitted.request not in self.ended
            self.tokens.setdefault(emitted.request, []).append(emitted.token)
        for ended in output.ended:
            assert ended.request not in self.ended
            self.ended[ended.request] = ended

    def step(self, step_s: float = 0.01) -> None:
        """Keep two plans in flight, commit one."""
        self.now_s += step_s
        while self.planner.num_in_flight < 2 and self.plan() is not None:
            pass
        if self.results:
            self.commit()
        self.note(self.planner.take_output(self.now_s))

    def finish(self, steps: int = 1000) -> None:
        for _ in range(steps):
            self.note(self.planner.take_output(self.now_s))
            if not self.planner.num_live and not self.results:
                return
            self.step()
        raise AssertionError(f"not idle: {self.planner.stats(self.now_s)}")


@pytest.fixture
def new_drive():
    """Build a drive with settings of its own."""
    return Drive
