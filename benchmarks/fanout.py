"""What does it cost to push a token to one of thousands of sockets?

The whole engine over a paced device behind its own server, with a stream on every
socket, beside bare servers that send the same frames and do nothing else. The server
and the bare servers run in processes of their own; the client, another process, takes
its share of the same cores.

- us_per_token: CPU of the server's process, and its core's, for each token;
- bare_us_per_frame: CPU of the best bare server for each frame;
- deliver_ms: from the end of the step until the client has the token;
- kib_idle_socket, kib_active_stream: resident memory for each.

The last line is one JSON object.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

Row = dict[str, Any]

CASE_S = 240.0
TOKENS_PER_S = 20_000

COLUMNS = (
    ("sockets", 7, "d"),
    ("placement", 9, "s"),
    ("us_per_token", 12, ".2f"),
    ("bare_us_per_frame", 17, ".2f"),
    ("tokens_per_s", 12, ",d"),
    ("tokens_per_frame", 16, ".2f"),
    ("deliver_ms_p50", 14, ".2f"),
    ("deliver_ms_p99", 14, ".2f"),
    ("kib_idle_socket", 15, ".1f"),
    ("kib_active_stream", 17, ".1f"),
)


def run(case: Row, repeats: int) -> list[Row]:
    """Run a case so often, each in a process of its own."""
    script = Path(__file__).with_name("fanout_case.py")
    rows: list[Row] = []
    for _ in range(repeats):
        ran = subprocess.run(
            [sys.executable, str(script), json.dumps(case)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=CASE_S,
            check=True,
        )
        rows.append(json.loads(ran.stdout.splitlines()[-1]))
    return rows


def bare_us(case: Row, repeats: int) -> Row:
    """Medians of the bare servers' CPU for each frame."""
    rows = run(case | {"bare": True}, repeats)
    return {kind: statistics.median(row[kind] for row in rows) for kind in rows[0]}


def numbers(text: str) -> list[int]:
    """A list of numbers with commas."""
    return [int(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """A list with commas."""
    return text.split(",")


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sockets", type=numbers, default=[1000, 4000])
    parser.add_argument("--placements", type=names, default=["thread", "process"])
    parser.add_argument("--tokens-per-s", type=float, default=TOKENS_PER_S)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    print("  ".join(f"{name:>{width}}" for name, width, _ in COLUMNS))
    rows: list[Row] = []
    for sockets in options.sockets:
        step_ms = 1e3 * sockets / options.tokens_per_s
        case = {"streams": sockets, "step_ms": step_ms, "seconds": options.seconds}
        bare = bare_us(case, options.repeats)
        for placement in options.placements:
            found = run(case | {"placement": placement}, options.repeats)
            found.sort(key=lambda row: row["us_per_token"])
            row = found[len(found) // 2] | {"bare_us_per_frame": min(bare.values())}
            rows.append(row | {"bare_servers": bare})
            print("  ".join(f"{row[n]:{w}{f}}" for n, w, f in COLUMNS), flush=True)
    used = ("uvicorn", "uvloop", "websockets")
    result = {
        "benchmark": "fanout",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": psutil.cpu_count(),
        "load_average": psutil.getloadavg(),
        "versions": {name: version(name) for name in used},
        "repeats": options.repeats,
        "rows": rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
