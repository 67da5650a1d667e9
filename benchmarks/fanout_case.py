"""One case of the fan-out benchmark, in a process of its own."""

import asyncio
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import uvloop
from pipeline_case import measure, memory
from pipeline_device import StepClock
from pipeline_readers import Case, Client, read_sockets, served

BARE = ("websockets", "uvicorn")


async def run_legato(case: Case) -> dict[str, Any]:
    """The whole engine behind its own server, every socket with one stream."""
    with tempfile.TemporaryDirectory() as folder:
        clock = str(Path(folder) / "clock")
        StepClock(clock)
        engine = case.engine(clock)
        async with served(engine, case) as port:
            idle_kib = await idle_socket_kib(port, case.streams)
            row = await measure(case, engine, read_sockets(case, port, clock))
    return {
        "sockets": case.streams,
        "placement": case.placement,
        "us_per_token": row["host_us_per_token"],
        "core_us_per_token": row["core_us_per_token"],
        "tokens_per_s": row["tokens_per_s"],
        "paced_tokens_per_s": row["paced_tokens_per_s"],
        "tokens_per_frame": row["tokens_per_frame"],
        "deliver_ms_p50": row["deliver_ms_p50"],
        "deliver_ms_p99": row["deliver_ms_p99"],
        "bubble_share": row["bubble_share"],
        "kib_idle_socket": round(idle_kib, 1),
        "kib_active_stream": row["kib_per_stream"],
        "lost": row["lost"],
    }


async def idle_socket_kib(port: int, sockets: int) -> float:
    """Resident memory that a socket takes which asks for nothing."""
    here = [psutil.Process()]
    async with Client(port, min(64, sockets), -1, ""):
        pass  # what the first connections load is nobody's
    empty_bytes = memory(here)
    async with Client(port, sockets, -1, ""):
        return (memory(here) - empty_bytes) / sockets / 1024


async def run_bare(case: Case) -> dict[str, Any]:
    """Each bare server in turn, under the same number of sockets and the same pace."""
    found: dict[str, Any] = {}
    for kind in BARE:
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("fanout_bare.py")),
            kind,
            str(case.step_ms),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(await server.stdout.readline())
        async with Client(port, case.streams, 0, ""):
            for seconds in (1.0, case.seconds):
                await asyncio.sleep(seconds)
                server.stdin.write(b"\n")
            spent = json.loads(await server.stdout.readline())
        found[kind] = round(spent["us_per_frame"], 2)
        server.kill()
        await server.wait()
    return found


async def main() -> None:
    """Read a case from the command line, print its row."""
    fields = json.loads(sys.argv[1])
    bare = fields.pop("bare", False)
    case = Case(**fields, readers="ws")
    row = await (run_bare(case) if bare else run_legato(case))
    print(json.dumps(row), flush=True)
    os._exit(0)  # readers cut off in the middle have nothing more to say


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(main())
