"""Does the device ever wait for the host, and what does a token cost on its way?

The whole engine over a paced device: a step takes a set time, and no lock and next to
no CPU. Each case runs in a process of its own, opens all its streams, lets them settle
for a second, and then measures:

- bubble_share: the device's idle time while work was waiting, of its whole time;
- host_us_per_token: CPU time of the server's process (and its core's) a token;
- tokens_per_s: received by the readers, beside paced_tokens_per_s, the device's pace;
- deliver_ms: from the end of the step that sampled a token until its reader has it;
- kib_per_stream: growth of resident memory when all streams run;
- floor_us_per_token, floor_ms_p99: what a bare loop spends that does only the same
  sends, and how long its readers wait.

Readers are tasks in the engine's own loop (inproc), or WebSockets of a client process
on the same machine (ws), which takes its share of the same cores. Depth 1 shows what
planning a step ahead is worth. ``--awake`` keeps the cores from sleeping, see
awake.py. The last line is one JSON object.
"""

import argparse
import itertools
import json
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from awake import awake

Row = dict[str, Any]

CASE_S = 150.0

COLUMNS = (
    ("streams", 7, "d"),
    ("placement", 9, "s"),
    ("readers", 7, "s"),
    ("depth", 5, "d"),
    ("bubble_share", 12, ".2%"),
    ("host_us_per_token", 17, ".2f"),
    ("floor_us_per_token", 18, ".2f"),
    ("tokens_per_s", 12, ",d"),
    ("paced_tokens_per_s", 18, ",d"),
    ("deliver_ms_p50", 14, ".2f"),
    ("deliver_ms_p99", 14, ".2f"),
    ("floor_ms_p99", 12, ".2f"),
    ("kib_per_stream", 14, ".1f"),
    ("cpu_share", 9, ".0%"),
)


def cases(options: argparse.Namespace) -> list[Row]:
    """Every combination asked for; depth 1 with in-process readers alone."""
    found: list[Row] = []
    for readers, depth, placement, streams in itertools.product(
        options.readers, options.depths, options.placements, options.streams
    ):
        if depth != 2 and readers == "ws":
            continue
        found.append(
            {
                "streams": streams,
                "placement": placement,
                "readers": readers,
                "depth": depth,
                "step_ms": options.step_ms,
                "seconds": options.seconds,
            }
        )
    return found


def run(case: Row, repeats: int) -> Row:
    """Measure a case so often, and return the run with the median of bubbles."""
    script = Path(__file__).with_name("pipeline_case.py")
    rows: list[Row] = []
    for _ in range(repeats):
        ran = subprocess.run(
            [sys.executable, str(script), json.dumps(case)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=CASE_S + case["seconds"],
            check=False,
        )
        if ran.returncode:
            return case | {"failed": ran.returncode}
        rows.append(json.loads(ran.stdout.splitlines()[-1]))
    rows.sort(key=lambda row: row["bubble_share"])
    return rows[len(rows) // 2]


def show(row: Row) -> None:
    """Print one row of the table."""
    if "failed" in row:
        print(f"failed: {row}", flush=True)
        return
    print("  ".join(f"{row[n]:{w}{f}}" for n, w, f in COLUMNS), flush=True)


def names(text: str) -> list[str]:
    """A list with commas."""
    return text.split(",")


def numbers(text: str) -> list[int]:
    """A list of numbers with commas."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=numbers, default=[1, 64, 256, 1024])
    parser.add_argument("--placements", type=names, default=["thread", "process"])
    parser.add_argument("--readers", type=names, default=["inproc", "ws"])
    parser.add_argument("--depths", type=numbers, default=[2, 1])
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--awake", action="store_true")
    options = parser.parse_args()
    print("  ".join(f"{name:>{width}}" for name, width, _ in COLUMNS))
    rows: list[Row] = []
    with awake(options.awake):
        for case in cases(options):
            rows.append(run(case, options.repeats))
            show(rows[-1])
    versions = ("msgspec", "uvicorn", "uvloop", "websockets")
    result = {
        "benchmark": "pipeline",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": psutil.cpu_count(),
        "load_average": psutil.getloadavg(),
        "versions": {name: version(name) for name in versions},
        "repeats": options.repeats,
        "awake": options.awake,
        "rows": rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
