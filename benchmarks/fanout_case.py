"""One case of the fan-out benchmark, in a process of its own."""

import asyncio
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop
from fanout_churn import run_churn
from fanout_servers import SERVERS
from fanout_stalled import LANES, STALLING_S, beside_stalled, run_stalled
from pipeline_case import gauge, memory, processes_of
from pipeline_device import StepClock
from pipeline_readers import Case, Client, read_sockets

from legato import Engine

OPENING_S = 120.0
MARGIN_S = 10.0
FIRST_SOCKETS = 64


async def run_legato(case: Case, server: str, clock: str) -> dict[str, Any]:
    """The whole engine behind a server, every socket with one stream."""
    engine = case.engine(clock)
    async with SERVERS[server](engine, case) as port:
        empty_bytes = await first_sockets(engine, case, port)
        idle_kib = await idle_socket_kib(engine, case, port, empty_bytes)
        async with read_sockets(case, port, clock) as window:
            row = await gauge(case, engine, window, empty_bytes)
            beside = await beside_stalled(case, window, port)
    return {
        "sockets": case.streams,
        "server": server,
        "placement": case.placement,
        "us_per_token": row["host_us_per_token"],
        "core_us_per_token": row["core_us_per_token"],
        "tokens_per_s": row["tokens_per_s"],
        "paced_tokens_per_s": row["paced_tokens_per_s"],
        "tokens_per_frame": row["tokens_per_frame"],
        "deliver_ms_p50": row["deliver_ms_p50"],
        "deliver_ms_p99": row["deliver_ms_p99"],
        **beside,
        "bubble_share": row["bubble_share"],
        "kib_idle_socket": round(idle_kib, 1),
        "kib_active_stream": row["kib_per_stream"],
        "lost": row["lost"],
    }


async def first_sockets(engine: Engine, case: Case, port: int) -> int:
    """Bytes resident before all sockets; what the first ones load is nobody's."""
    async with Client(port, min(FIRST_SOCKETS, case.streams), -1):
        pass
    return memory(processes_of(engine))


async def idle_socket_kib(
    engine: Engine, case: Case, port: int, empty_bytes: int
) -> float:
    """Resident memory that a socket takes which asks for nothing."""
    async with Client(port, case.streams, -1, opening_s=case.opening_s):
        full_bytes = memory(processes_of(engine))
    return (full_bytes - empty_bytes) / case.streams / 1024


async def run_bare(case: Case, kind: str) -> dict[str, Any]:
    """One bare server, under the same number of sockets and the same pace."""
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
    async with Client(port, case.streams, 0, opening_s=case.opening_s):
        for seconds in (1.0, case.seconds):
            await asyncio.sleep(seconds)
            server.stdin.write(b"\n")
        spent = json.loads(await server.stdout.readline())
    await server.wait()
    return spent


async def run_case(fields: dict[str, Any], clock: str) -> dict[str, Any]:
    """Run a case of any kind."""
    kind, argument = fields.pop("kind"), fields.pop("argument")
    case = Case(
        **fields,
        readers="ws",
        opening_s=OPENING_S,
        beyond_s=STALLING_S + fields["seconds"] + MARGIN_S,
        extra=LANES,
    )
    if kind == "bare":
        return await run_bare(case, argument)
    if kind == "stalled":
        return await run_stalled(case, argument, clock)
    if kind == "churn":
        return await run_churn(case, argument, clock)
    return await run_legato(case, argument, clock)


async def main() -> None:
    """Read a case from the command line, print its row."""
    with tempfile.TemporaryDirectory() as folder:
        clock = str(Path(folder) / "clock")
        StepClock(clock)
        row = await run_case(json.loads(sys.argv[1]), clock)
    print(json.dumps(row), flush=True)
    os._exit(0)  # readers cut off in the middle have nothing more to say


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(main())
