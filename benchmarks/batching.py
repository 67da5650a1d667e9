"""Which batching strategy wins where: static, dynamic or continuous?

The same arrivals (Poisson, seeded) and the same requests (unequal lengths) go to an
engine under each strategy, on a paced device (5 ms a step, whatever the batch) and,
with ``--model smollm2``, on the real model. Low and high arrival rates, and a backlog
that is there from the start (rate 0). All three have the same eight places on the
device, and static reserves the pages of a whole batch at its start, as servers without
a paged cache do; ``batch_alloc_bytes`` is what a padded batch (every place as long as
the longest request) would allocate. Reported for each: utilisation (share of the run
in which the device was in a step), output tokens a second, latency from arrival to the
last token (mean and p99), and the peak of the page pool, medians of ``--repeats`` runs.

The floor of an answer's latency is its own length times the step time;
``floor_ms_mean`` stands beside the figure. Last line: one JSON object.

    python benchmarks/batching.py
    python benchmarks/batching.py --model smollm2 --requests 12 --repeats 1
    python benchmarks/batching.py --plot docs/batching.svg      # needs matplotlib
"""

import argparse
import asyncio
import json
import platform
import random
import statistics
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from msgspec import structs

from legato import Engine, FakeModel, SamplingParams
from legato.actors.scheduling.batching import Batching, Continuous, Dynamic, Static
from legato.gpu.fake import FAKE_LIMITS

STEP_S = 0.005
SLOTS = 8
STRATEGIES: dict[str, Batching] = {
    "static": Static(size=SLOTS, max_wait_s=1.0),
    "dynamic": Dynamic(max_batch=SLOTS, max_delay_s=0.05),
    "continuous": Continuous(),
}


@dataclass(frozen=True)
class Request:
    """One request of the load: when it comes, how long it is."""

    at_s: float
    prompt: tuple[int, ...]
    max_tokens: int


@dataclass
class Row:
    """One line of the result."""

    strategy: str
    arrival_per_s: float
    utilisation: float
    tokens_per_s: float
    latency_ms_mean: float
    latency_ms_p99: float
    pool_peak_bytes: int
    batch_alloc_bytes: int
    floor_ms_mean: float


def load(count: int, arrival_per_s: float, seed: int) -> list[Request]:
    """Draw a load; a rate of 0 means that all are there from the start."""
    dice = random.Random(seed)
    at_s, requests = 0.0, list[Request]()
    for _ in range(count):
        if arrival_per_s:
            at_s += dice.expovariate(arrival_per_s)
        prompt = tuple(dice.randrange(32, 126) for _ in range(dice.randrange(16, 200)))
        requests.append(Request(at_s, prompt, dice.choice((8, 16, 32, 64, 160))))
    return requests


async def answer(engine: Engine, request: Request, began_s: float) -> float:
    """Send one request at its time; return its latency in seconds."""
    wait_s = began_s + request.at_s - time.perf_counter()
    if wait_s > 0:
        await asyncio.sleep(wait_s)
    params = SamplingParams(
        temperature=0, max_tokens=request.max_tokens, ignore_eos=True
    )
    due_s = began_s + request.at_s
    await engine.generate(request.prompt, params)
    return time.perf_counter() - due_s


async def run(
    model: str, batching: Batching, requests: list[Request], name: str, rate: float
) -> Row:
    """Put one load through one strategy."""
    limits = structs.replace(FAKE_LIMITS, num_slots=SLOTS)
    made = FakeModel(limits=limits, step_s=STEP_S) if model == "fake" else model
    async with Engine(
        made,
        batching=batching,
        num_slots=SLOTS,
        max_context=1024,
        prefix_cache=False,
    ) as engine:
        warm = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
        await engine.generate((40, 41, 42), warm)
        await engine.wait_idle()
        before = engine.stats().core
        began_s = time.perf_counter()
        latencies_s = await asyncio.gather(
            *(answer(engine, request, began_s) for request in requests)
        )
        wall_s = time.perf_counter() - began_s
        await engine.wait_idle()
        after = engine.stats().core
    steps = after.steps - before.steps
    busy_s = after.busy_s - before.busy_s
    step_s = busy_s / max(1, steps)
    tokens = sum(request.max_tokens for request in requests)
    return Row(
        strategy=name,
        arrival_per_s=rate,
        utilisation=round(busy_s / wall_s, 4),
        tokens_per_s=round(tokens / wall_s, 1),
        latency_ms_mean=round(1e3 * statistics.mean(latencies_s), 1),
        latency_ms_p99=round(
            1e3 * sorted(latencies_s)[-1 - len(latencies_s) // 100], 1
        ),
        pool_peak_bytes=after.pages_peak * page_bytes(engine),
        batch_alloc_bytes=batch_alloc(requests) * page_bytes(engine),
        floor_ms_mean=round(1e3 * step_s * tokens / len(requests), 1),
    )


def batch_alloc(requests: list[Request]) -> int:
    """Pages of a padded batch: every place as long as the longest request."""
    longest = max(len(request.prompt) + request.max_tokens for request in requests)
    return SLOTS * -(-longest // FAKE_LIMITS.page_size)


def page_bytes(engine: Engine) -> int:
    """Bytes of a page; the paced device has none, so SmolLM2's in bfloat16."""
    return engine.page_bytes or 30 * 2 * 3 * 64 * 2 * FAKE_LIMITS.page_size


def median(rows: list[Row]) -> Row:
    """The median of each figure over repeated runs."""
    first = asdict(rows[0])
    merged: dict[str, Any] = {}
    for field, value in first.items():
        if isinstance(value, str):
            merged[field] = value
        else:
            merged[field] = statistics.median(asdict(row)[field] for row in rows)
    return Row(**merged)


def plot(rows: list[Row], path: str) -> None:
    """Draw mean latency over the arrival rate, one line a strategy."""
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for name in STRATEGIES:
        points = sorted(
            (row.arrival_per_s, row.latency_ms_mean)
            for row in rows
            if row.strategy == name and row.arrival_per_s
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xlabel="arrivals per second", ylabel="mean latency, ms", yscale="log")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Run every strategy over every load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="fake")
    parser.add_argument("--rates", default="0,0.5,5,20")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot")
    args = parser.parse_args()
    print(f"# {platform.platform()}, Python {platform.python_version()}")
    rows: list[Row] = []
    for rate in map(float, args.rates.split(",")):
        # Few arrivals a second would take minutes: ten show as much.
        count = args.requests if rate >= 5 or not rate else min(args.requests, 10)
        for name, batching in STRATEGIES.items():
            runs = [
                asyncio.run(
                    run(args.model, batching, load(count, rate, seed), name, rate)
                )
                for seed in range(args.repeats)
            ]
            rows.append(median(runs))
            print(f"# {json.dumps(asdict(rows[-1]))}", flush=True)
    if args.plot:
        plot(rows, args.plot)
    print(json.dumps({"model": args.model, "rows": [asdict(row) for row in rows]}))


if __name__ == "__main__":
    main()
