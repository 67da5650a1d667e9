"""How many messages a second does each kind of mailbox carry, beside the usual queues?

Cases, each with one sender and one consumer:
- alone: two tasks pass one message to and fro: each put wakes a sleeping consumer;
- full: capacity 1, so that each put waits for its turn as well;
- burst: 256 messages put, then taken at once by a consumer that slept;
- burst_nowait: the same without a consumer's task: put and take in one;
- to_loop: a thread into an event loop; to_thread: an event loop into a thread;
- process: a child process into an event loop.

Every rival does the same work in the same run, taking turns; figures are medians.
Only Legato's mailboxes count waits, check the caller's thread and, but for the bounded
rivals ``asyncio.Queue`` and anyio's stream in one loop, hold a bound. The floor is a
``deque`` appended to and popped from, with no waiting at all. ``--uvloop`` measures on
uvloop; the last line is one JSON object.
"""

import argparse
import asyncio
import json
import platform
import statistics
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import mailbox_tasks as tasks
import mailbox_threads as threads
import uvloop

Run = Callable[[int], Awaitable[float]]

CASES: dict[str, tuple[int, dict[str, Run]]] = {
    "alone": (
        10_000,
        {
            "legato": tasks.alone_legato,
            "asyncio": tasks.alone_asyncio,
            "anyio": tasks.alone_anyio,
        },
    ),
    "full": (
        10_000,
        {
            "legato": tasks.full_legato,
            "asyncio": tasks.full_asyncio,
            "anyio": tasks.full_anyio,
        },
    ),
    "burst": (
        25_600,
        {
            "legato": tasks.burst_legato,
            "asyncio": tasks.burst_asyncio,
            "anyio": tasks.burst_anyio,
        },
    ),
    "burst_nowait": (
        102_400,
        {
            "legato": tasks.nowait_legato,
            "asyncio": tasks.nowait_asyncio,
            "anyio": tasks.nowait_anyio,
            "simple_queue": tasks.nowait_simple,
            "floor": tasks.nowait_floor,
        },
    ),
    "to_loop": (
        20_000,
        {"legato": threads.to_loop_legato, "asyncio": threads.to_loop_asyncio},
    ),
    "to_thread": (
        50_000,
        {"legato": threads.to_thread_legato, "simple_queue": threads.to_thread_simple},
    ),
    "process": (
        20_000,
        {"legato": threads.process_legato, "pipe": threads.process_pipe},
    ),
}


async def measure(repeats: int) -> list[dict[str, str | float]]:
    """Run every case and rival in turns; messages per second, the median of each."""
    rows: list[dict[str, str | float]] = []
    for case, (count, rivals) in CASES.items():
        rates: dict[str, list[float]] = {rival: [] for rival in rivals}
        for repeat in range(repeats + 1):
            for rival, run in rivals.items():
                taken_s = await run(count)
                if repeat:  # the first is the warm-up
                    rates[rival].append(count / taken_s)
        ours = statistics.median(rates["legato"])
        for rival, found in rates.items():
            rate = statistics.median(found)
            rows.append(
                {
                    "case": case,
                    "mailbox": rival,
                    "messages_per_s": round(rate),
                    "legato_over_it": round(ours / rate, 2),
                }
            )
            print(
                f"{case:13} {rival:13} {rate:12,.0f}/s   {ours / rate:6.2f}", flush=True
            )
    return rows


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description="Measure mailboxes.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    run = uvloop.run if options.uvloop else asyncio.run
    result = {
        "benchmark": "mailboxes",
        "loop": "uvloop" if options.uvloop else "asyncio",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: version(name) for name in ("anyio", "msgspec", "uvloop")},
        "repeats": options.repeats,
        "rows": run(measure(options.repeats)),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
