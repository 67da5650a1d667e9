"""How does the planner treat its requests, and what does it cost?

Drives the planner alone, on a simulated device and clock, through a trace like those
that servers record: bursts, long-tail prompts, conversations over shared system
prompts, three priorities, tenants of very unequal demand, slow readers, people who
leave. Nothing sleeps: a step takes the time of a cost model. Prints waiting times by
priority, pool use, preemptions and prefix hits; then the share that eight greedy
tenants get of a saturated device (Jain's index, 1 is equal); then the planner's own
cost for a step (plan and commit) by running sequences.

The floor, printed beside it: building a step's messages, keeping its tokens.

    python benchmarks/scheduling.py --requests 1000000
    python benchmarks/scheduling.py --requests 5000        # mostly the planner's cost

The page size is 16, a usual one for decoders; half of a last page is lost for each
sequence, so fragmentation is about 8 positions over the mean length held.
"""

import argparse
import json
import platform
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from resource import RUSAGE_SELF, getrusage
from statistics import median

from arrivals import GREEDY, VOCABULARY, Trace
from scheduling_device import ModelledDevice, limits
from scheduling_simulation import Simulation

from legato.actors.scheduling import Planner, PlannerSettings
from legato.protocol.requests import Admit, StepOutput
from legato.protocol.steps import StepPlan, StepResult

PATIENCE_S = 10.0


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def simulate(
    requests: int, rate_per_s: float, seed: int, pages: int
) -> dict[str, object]:
    settings = PlannerSettings(
        max_step_tokens=512, max_waiting=4096, patience_s=PATIENCE_S
    )
    planner = Planner(limits(256, pages), settings)
    trace, device = Trace(requests, rate_per_s, seed), ModelledDevice(256)
    simulation = Simulation(trace, planner, device)
    simulation.run()
    stats = planner.stats(simulation.now_s)
    assert stats.pages_used == 0, "pages leaked"
    waits = simulation.waits
    busy = simulation.busy_s / simulation.now_s
    print(f"{requests} requests in {simulation.now_s:.0f} simulated seconds,")
    print(f"device busy {busy:.1%}, {stats.steps} steps,")
    print(f"{stats.emitted_tokens} tokens, {simulation.refused} refused as overload")
    print("wait for the first token (s):      p50     p99     max   requests")
    for priority in sorted(waits):
        row = (percentile(waits[priority], share) for share in (0.5, 0.99, 1.0))
        text = "".join(f"{value:8.3f}" for value in row)
        print(f"  priority {priority:2}               {text}   {len(waits[priority])}")
    return {
        "starvation_max_s": round(max(max(values) for values in waits.values()), 3),
        "fragmentation": round(simulation.fragmentation.value, 4),
        "pool_use_mean": round(simulation.pool_use.value, 3),
        "preemptions": stats.preemptions,
        "prefix_hit_share": round(stats.prefix_hit_tokens / stats.prompt_tokens, 3),
        "utilisation": round(simulation.busy_s / simulation.now_s, 3),
        "refused": simulation.refused,
        "trace_planner_ms": round(simulation.host_s / simulation.steps * 1e3, 4),
    }


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def fairness(steps: int) -> float:
    """Tenants that always want more; the last asks for eight times as much a time."""
    settings = PlannerSettings(max_step_tokens=512, max_waiting=1 << 20)
    planner, device = Planner(limits(64, 8000), settings), ModelledDevice(64)
    draw = random.Random(5)
    served: defaultdict[int, float] = defaultdict(float)
    waiting: defaultdict[int, int] = defaultdict(int)
    owner: dict[int, tuple[int, int]] = {}
    now_s = 0.0
    for _ in range(steps):
        now_s += 0.01
        for tenant in range(8):
            while waiting[tenant] < 24:
                prompt = tuple(draw.choices(range(VOCABULARY), k=20 * (tenant + 1)))
                request = len(owner)
                owner[request] = (tenant, len(prompt))
                admit = Admit(request, prompt, 40, GREEDY, tenant=str(tenant))
                planner.admit(admit, now_s)
                waiting[tenant] += 1
        plan = planner.plan(now_s)
        assert plan is not None, "a saturated planner has a step"
        for ended in planner.commit(device.run(plan), now_s).ended:
            tenant, prompt_tokens = owner[ended.request]
            served[tenant] += prompt_tokens + ended.usage.output_tokens
            waiting[tenant] -= 1
    shares = [served[tenant] for tenant in range(8)]
    print("tokens of eight greedy tenants:", *(f"{share:.0f}" for share in shares))
    return jain(shares)


def timed(work: Callable[[], object]) -> float:
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def message_floor_ms(running: int) -> float:
    """Building one step's messages, keeping its tokens, and nothing else."""

    numbers = tuple(range(running))
    texts = [list[int]() for _ in numbers]

    def build() -> None:
        StepPlan(0, (), (), (), numbers)
        for text, number in zip(texts, numbers, strict=True):
            text.append(number)
        StepOutput(numbers, numbers)

    return min(timed(build) for _ in range(30)) * 1e3


def planner_cost_ms(running: int, steps: int) -> tuple[float, float]:
    """Median and p99 of plan plus commit with so many decoding sequences."""
    settings = PlannerSettings(max_step_tokens=8192, max_waiting=running)
    planner = Planner(limits(running, running * 40), settings)
    device = ModelledDevice(running)
    for n in range(running):
        prompt = tuple((n * 31 + i) % VOCABULARY for i in range(17 + n % 16))
        planner.admit(Admit(n, prompt, steps + 50, GREEDY), 0.0)
    costs: list[float] = []
    flying: deque[StepResult] = deque()
    for number in range(steps):
        begun_s = time.process_time()
        plan = planner.plan(number * 0.01)
        planned_s = time.process_time() - begun_s
        assert plan is not None, "every sequence decodes"
        flying.append(device.run(plan))
        if len(flying) == 2:
            result = flying.popleft()
            begun_s = time.process_time()
            planner.commit(result, number * 0.01)
            if len(plan.decodes) == running and number > 10:
                costs.append(planned_s + time.process_time() - begun_s)
    return median(costs) * 1e3, percentile(costs, 0.99) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=95.0, help="requests/s")
    parser.add_argument("--pages", type=int, default=1600, help="of 16 tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cost-steps", type=int, default=200)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.processor() or 'cpu'}")
    begun_s = time.process_time()
    report = simulate(options.requests, options.rate, options.seed, options.pages)
    report["cpu_s"] = round(time.process_time() - begun_s)
    report["peak_mb"] = round(getrusage(RUSAGE_SELF).ru_maxrss / 1024)
    report["fairness"] = round(fairness(1500), 4)
    costs: dict[str, float] = {}
    print("planner ms a step:  running   median      p99    floor")
    for running in (1, 64, 256, 1024):
        # The quietest of three: other work on the machine only adds.
        steps = options.cost_steps
        middle, worst = min(planner_cost_ms(running, steps) for _ in range(3))
        floor = message_floor_ms(running)
        print(f"{running:27} {middle:8.3f} {worst:8.3f} {floor:8.3f}")
        costs[str(running)] = round(middle, 4)
    print(json.dumps({"planner_ms": costs, **report}))


if __name__ == "__main__":
    main()
