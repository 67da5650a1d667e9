"""One case of the pipeline benchmark, in a process of its own."""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop
from pipeline_device import StepClock
from pipeline_floor import floor_inproc
from pipeline_readers import (
    SETTLING_S,
    Case,
    Reading,
    Window,
    floor_sockets,
    read_inproc,
    read_sockets,
    served,
)

from legato import Engine
from legato.protocol.core import CoreStats


async def run_case(case: Case) -> dict[str, Any]:
    """Measure, and return the row."""
    with tempfile.TemporaryDirectory() as folder:
        clock = str(Path(folder) / "clock")
        StepClock(clock)
        engine = case.engine(clock)
        if case.readers == "inproc":
            async with engine:
                row = await measure(case, engine, read_inproc(case, engine, clock))
                floor = await floor_inproc(case.streams, case.step_s, 1.0)
        else:
            async with served(engine, case) as port:
                row = await measure(case, engine, read_sockets(case, port, clock))
            floor = await floor_sockets(case)
        return row | {
            "floor_us_per_token": round(floor.us_per_token, 2),
            "floor_ms_p99": round(percentile(sorted(floor.delays_ms), 0.99), 3),
        }


async def measure(case: Case, engine: Engine, reading: Reading) -> dict[str, Any]:
    """Open all streams, let them settle, and read every gauge around a window."""
    empty_bytes = memory(processes_of(engine))
    async with reading as window:
        return await gauge(case, engine, window, empty_bytes)


async def gauge(
    case: Case, engine: Engine, window: Window, empty_bytes: int
) -> dict[str, Any]:
    """Let open streams settle, and read every gauge around a window.

    Args:
        case: What is measured.
        engine: The streams'.
        window: Of their readers.
        empty_bytes: Resident before there were any.
    """
    processes = processes_of(engine)
    await asyncio.sleep(SETTLING_S)
    full_bytes = memory(processes)
    window.open()
    before, began = engine.stats().core, cpu(processes)
    began_s = time.perf_counter()
    await asyncio.sleep(case.seconds)
    spent = [a - b for a, b in zip(cpu(processes), began, strict=True)]
    seconds = time.perf_counter() - began_s
    after, stats = engine.stats().core, engine.stats()
    got = await window.close()
    delays_ms = sorted(1e3 * delay_s for delay_s in got.delays_s)
    return msgspec.to_builtins(case) | {
        "bubble_share": round(bubbles(before, after), 5),
        "host_us_per_token": round(1e6 * sum(spent) / max(1, got.tokens), 2),
        "core_us_per_token": round(1e6 * sum(spent[1:]) / max(1, got.tokens), 2),
        "tokens_per_s": round(got.tokens / seconds),
        "paced_tokens_per_s": round(case.streams / case.step_s),
        "deliver_ms_p50": round(percentile(delays_ms, 0.5), 3),
        "deliver_ms_p99": round(percentile(delays_ms, 0.99), 3),
        "kib_per_stream": round((full_bytes - empty_bytes) / case.streams / 1024, 1),
        "cpu_share": round(sum(spent) / seconds, 3),
        "plan_us_per_step": round(plan_us(before, after), 1),
        "tokens_per_frame": round(got.tokens / got.frames, 2) if got.frames else 1.0,
        "lost": got.lost,
        "itl_ms_p99": round(stats.itl_ms_p99, 2),
    }


def bubbles(before: CoreStats, after: CoreStats) -> float:
    """Share of the device's time lost between two readings."""
    idle_s = after.idle_s - before.idle_s
    return idle_s / max(1e-9, idle_s + after.busy_s - before.busy_s)


def plan_us(before: CoreStats, after: CoreStats) -> float:
    """Host time of planning for each step between two readings."""
    steps = max(1, after.steps - before.steps)
    return 1e6 * (after.plan_s - before.plan_s) / steps


def percentile(ordered: list[float], share: float) -> float:
    """The value below which a share of all lie; 0 of nothing."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def processes_of(engine: Engine) -> list[psutil.Process]:
    """This process, and the core's if it has one."""
    core = getattr(engine.core, "pid", None)
    return [psutil.Process(), *([psutil.Process(core)] if core else [])]


def memory(processes: list[psutil.Process]) -> int:
    """Resident bytes of some processes."""
    return sum(process.memory_info().rss for process in processes)


def cpu(processes: list[psutil.Process]) -> list[float]:
    """CPU seconds of each process."""
    times = [process.cpu_times() for process in processes]
    return [spent.user + spent.system for spent in times]


def main() -> None:
    """Read a case from the command line, print its row."""
    case = msgspec.json.decode(sys.argv[1], type=Case)
    row = uvloop.run(run_case(case))
    print(json.dumps(row), flush=True)
    os._exit(0)  # readers cut off in the middle have nothing more to say


if __name__ == "__main__":
    main()
