"""Steps driven straight into a runner, as the executor would: one always waits."""

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from legato.gpu.runner import ModelRunner, StepHandle
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepResult, StepRow

GREEDY = RowSampling(0.0)


@dataclass
class Driver:
    """Keeps a runner's depth full.

    Args:
        runner: Whose pages are all free.
    """

    runner: ModelRunner
    step: int = 0

    def run(self, plans: list[StepPlan]) -> list[StepResult]:
        """Run plans to their end."""
        running: deque[StepHandle] = deque()
        results: list[StepResult] = []
        for plan in plans:
            running.append(self.runner.launch(plan))
            if len(running) >= self.runner.launch_depth:
                results.append(running.popleft().wait())
        return [*results, *(handle.wait() for handle in running)]

    def plan(self, **parts: object) -> StepPlan:
        """The next plan."""
        self.step += 1
        return StepPlan(self.step, **{"rows": (), **parts})  # pyright: ignore[reportArgumentType]

    def open(self, slot: int, length: int, pages: tuple[int, ...]) -> list[StepPlan]:
        """Plans that give a slot a prompt, in chunks."""
        chunk, opens = (
            self.runner.limits.max_step_tokens,
            (SlotOpen(slot, GREEDY, length, pages),),
        )
        plans: list[StepPlan] = []
        for start in range(0, length, chunk):
            tokens = tuple(
                5 + n % 200 for n in range(start, min(start + chunk, length))
            )
            row = StepRow(slot, start, tokens, start + len(tokens) == length)
            plans.append(self.plan(rows=(row,), opens=opens if not start else ()))
        return plans


def decode(
    runner: ModelRunner, batch: int, context: int, steps: int
) -> tuple[float, float]:
    """Decode steadily.

    Returns:
        Seconds from step to step, the median, and the share the device was at work.
    """
    driver, size = Driver(runner), runner.limits.page_size
    each = -(-(context + steps + 1) // size)
    for slot in range(batch):
        pages = tuple(range(slot * each, (slot + 1) * each))
        driver.run(driver.open(slot, context, pages))
    decodes = tuple(range(batch))
    results = driver.run([driver.plan(decodes=decodes) for _ in range(steps)])[2:]
    ends = [result.finished_s for result in results]
    step_s = median(b - a for a, b in pairwise(ends))
    busy_s = sum(result.finished_s - result.started_s for result in results[1:])
    return step_s, min(busy_s / (ends[-1] - ends[0]), 1.0)


def prefill(runner: ModelRunner, length: int, repeats: int) -> float:
    """Seconds for a prompt, the least of several."""
    driver, times = Driver(runner), list[float]()
    pages = tuple(range(-(-length // runner.limits.page_size)))
    for _ in range(repeats + 1):
        results = driver.run(driver.open(0, length, pages))
        times.append(results[-1].finished_s - results[0].started_s)
    return min(times[1:])
