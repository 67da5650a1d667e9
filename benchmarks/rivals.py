"""How quick is Legato beside other engines on this machine's cores, over HTTP?

Each engine is started, given the workloads in turn, and ended before the next begins:

    W1  1 stream,    8 requests,  128 tokens in, 128 out
    W2  8 streams,  32 requests,  128 in, 128 out
    W3  32 streams, 96 requests,  128 in, 128 out
    W4  64 streams, 256 requests,  32 in,  64 out
    W5  4 streams,  12 requests, 1500 in,  64 out

``benchmarks/rivals_setup.sh DIR llamacpp transformers openvino`` sets rivals up;
``--home DIR`` (or LEGATO_RIVALS) says where. Who is not there is left out, with how to
get it. Every request has a prompt of its own, so that no prefix cache helps; lengths
are exact. OpenVINO runs in process, without HTTP. The last line is one JSON document.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import rivals_client
from rivals_servers import Server, known

from legato.actors.text import Vocabulary
from legato.cli.load import Answer, Load, milliseconds
from legato.gpu.checkpoint import open_checkpoint

WORKLOADS = {
    "W1": Load(streams=1, requests=8, prompt_tokens=128, max_tokens=128),
    "W2": Load(streams=8, requests=32, prompt_tokens=128, max_tokens=128),
    "W3": Load(streams=32, requests=96, prompt_tokens=128, max_tokens=128),
    "W4": Load(streams=64, requests=256, prompt_tokens=32, max_tokens=64),
    "W5": Load(streams=4, requests=12, prompt_tokens=1500, max_tokens=64),
}
START_S = 600.0
Results = dict[str, dict[str, Any]]


def find_words() -> list[str]:
    """Words that are one token each, with the space before them."""
    text = open_checkpoint("smollm2").text
    vocabulary = Vocabulary.load(text.vocabulary)
    pieces = map(vocabulary.token_bytes, range(300, 20_000))
    return [p.decode() for p in pieces if re.fullmatch(rb" [a-z]{3,9}", p)]


def summary(answers: Sequence[Answer], load: Load) -> dict[str, Any]:
    waits = [answer.times[0] - answer.begun_s for answer in answers]
    gaps = [
        later - sooner
        for answer in answers
        for sooner, later in zip(answer.times, answer.times[1:], strict=False)
    ]
    began = min(answer.begun_s for answer in answers)
    ended = max(answer.times[-1] for answer in answers)
    return {
        "out_tok_s": round(sum(a.tokens for a in answers) / (ended - began), 1),
        "ttft_ms_p50": milliseconds(waits, 0.5),
        "ttft_ms_p99": milliseconds(waits, 0.99),
        "itl_ms_p50": milliseconds(gaps, 0.5),
        "itl_ms_p99": milliseconds(gaps, 0.99),
        "exact": sum(a.tokens == load.max_tokens for a in answers),
        "requests": len(answers),
    }


def measure(
    server: Server, loads: dict[str, Load], words: list[str], log: Path
) -> dict[str, Any]:
    """Start an engine, run the workloads, end it."""
    with log.open("wb") as file:
        if not server.serves:
            return measure_script(server, loads, words, file)
        port = free_port()
        started = time.perf_counter()
        process = subprocess.Popen(
            server.command(port),
            env=os.environ | server.environment,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            return asyncio.run(
                measure_server(server, port, process, started, loads, words)
            )
        finally:
            end(process)


async def measure_server(
    server: Server,
    port: int,
    process: subprocess.Popen[bytes],
    started: float,
    loads: dict[str, Load],
    words: list[str],
) -> dict[str, Any]:
    body = {"model": server.model, **server.extras}
    first = Load(streams=1, requests=1, prompt_tokens=4, max_tokens=1, seed=-1)
    while True:
        try:
            await rivals_client.drive(port, first, words, body)
            break
        except* (OSError, RuntimeError) as failed:
            if process.poll() is not None or time.perf_counter() - started > START_S:
                raise RuntimeError(f"{server.name} did not start: {failed}") from None
        await asyncio.sleep(0.1)
    found: dict[str, Any] = {"start_s": round(time.perf_counter() - started, 2)}
    for name, load in loads.items():
        answers = await rivals_client.drive(port, load, words, body)
        found[name] = summary(answers, load)
        print(f"{server.name:<16} {name} {json.dumps(found[name])}", flush=True)
    found["peak_rss_mib"] = peak_mib(process.pid)
    return found


def measure_script(
    server: Server, loads: dict[str, Load], words: list[str], log: Any
) -> dict[str, Any]:
    asked = {"words": words, "loads": [msgspec.to_builtins(v) for v in loads.values()]}
    ran = subprocess.run(
        server.command(0),
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=log,
        check=True,
    )
    told = json.loads(ran.stdout.splitlines()[-1])
    found = {key: round(told[key], 2) for key in ("start_s", "peak_rss_mib")}
    for (name, load), run in zip(loads.items(), told["runs"], strict=True):
        found[name] = summary(msgspec.convert(run, list[Answer]), load)
        print(f"{server.name:<16} {name} {json.dumps(found[name])}", flush=True)
    return found


def peak_mib(root: int) -> float:
    """The most memory a process and its children held, from Linux's own count."""
    parents: dict[int, int] = {}
    peaks: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(re.findall(r"(\w+):\s+(\d+)", status.read_text()))
        except OSError:
            continue
        parents[int(fields["Pid"])] = int(fields["PPid"])
        peaks[int(fields["Pid"])] = int(fields.get("VmHWM", 0))

    def belongs(pid: int) -> bool:
        return pid == root or (pid in parents and belongs(parents[pid]))

    return round(sum(kib for pid, kib in peaks.items() if belongs(pid)) / 1024, 1)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server with all its children: the session that was made for it."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def table(results: Results, loads: Sequence[str]) -> dict[str, Any]:
    """Print figures and ratios; return the ratios."""
    rivals = [name for name in results if name != "legato"]
    ratios: dict[str, Any] = {}
    for key, unit in (("out_tok_s", "tokens/s"), ("ttft_ms_p50", "first token, ms")):
        best_of = max if key == "out_tok_s" else min
        print(f"\n{unit:<18}" + "".join(f"{name:>17}" for name in results) + "   ratio")
        for load in loads:
            row = [results[name][load][key] for name in results]
            line = f"{load:<18}" + "".join(f"{value:>17}" for value in row)
            if rivals and "legato" in results:
                best = best_of(results[name][load][key] for name in rivals)
                ratio = round(results["legato"][load][key] / best, 2)
                ratios[f"{load}_{key}"] = ratio
                line += f"{ratio:>8}"
            print(line)
    for key in ("start_s", "peak_rss_mib"):
        print(f"{key:<18}" + "".join(f"{one[key]:>17}" for one in results.values()))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    home = os.environ.get("LEGATO_RIVALS", str(Path.home() / ".cache/legato/rivals"))
    parser.add_argument("--home", type=Path, default=Path(home))
    parser.add_argument("--engines", default="", help="names, comma between; all")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--share", type=float, default=1.0, help="of the requests")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    loads = {
        name: msgspec.structs.replace(
            WORKLOADS[name],
            requests=max(1, round(WORKLOADS[name].requests * options.share)),
            seed=options.seed,
        )
        for name in options.workloads.split(",")
    }
    words, results = find_words(), Results()
    chosen = [name.strip() for name in options.engines.split(",") if name.strip()]
    for server in known(options.home.absolute(), options.threads):
        if chosen and server.name not in chosen:
            continue
        if not server.needs.exists():
            print(
                f"{server.name}: not installed; run {server.install}", file=sys.stderr
            )
            continue
        log = Path(f"/tmp/rivals-{server.name.replace(' ', '-')}.log")
        try:
            results[server.name] = measure(server, loads, words, log)
        except (RuntimeError, ExceptionGroup, subprocess.CalledProcessError) as error:
            print(f"{server.name}: {error}; see {log}", file=sys.stderr)
    ratios = table(results, list(loads))
    print(
        json.dumps({"engines": results, "ratios": ratios, "threads": options.threads})
    )


if __name__ == "__main__":
    main()
