"""What does it cost to push a token to one of thousands of sockets?

The whole engine over a paced device behind its own server, with a stream on every
socket, beside bare servers that send the same frames and do nothing else. The server
and the bare servers run in processes of their own; the client, another process, takes
its share of the same cores. Unless the pace is given, it is what the quicker bare
server sends with a third of a core.

- us_per_token: CPU of the server's process, and its core's, for each token;
- bare_us_per_frame: CPU of the best bare server for each frame;
- deliver_ms: from the end of the step until the client has the token;
- deliver_ms_..._beside_stalled: a moment later, beside one more socket that asked for
  64 streams and reads nothing;
- kib_idle_socket, kib_active_stream: resident memory for each;
- stalled_kib: what a server with nobody else grows by for such a socket until all of
  its streams are paused, and _later: from then on;
- churn_...: what is left of thousands who came and went, most of them impolitely.

``--awake`` keeps the cores from sleeping, see awake.py. The last line is one JSON
object.
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
from awake import awake
from fanout_granian import INSTALLED as HAS_GRANIAN

Row = dict[str, Any]

CASE_S = 900.0
# The pace: so much of a core for the bare server's frames, and at most so many tokens.
BARE_SHARE = 0.35
MOST_TOKENS_PER_S = 20_000
PROBE_TOKENS_PER_S = 4_000
PROBE_S = 2.0
CHURN_STREAMS = 128
STEP_MS = 5.0
BARE = ("uvicorn", "websockets", "granian")

COLUMNS = (
    ("sockets", 7, "d"),
    ("server", 10, "s"),
    ("placement", 9, "s"),
    ("us_per_token", 12, ".2f"),
    ("bare_us_per_frame", 17, ".2f"),
    ("tokens_per_s", 12, ",d"),
    ("tokens_per_frame", 16, ".2f"),
    ("deliver_ms_p50", 14, ".2f"),
    ("deliver_ms_p99", 14, ".2f"),
    ("deliver_ms_p99_beside_stalled", 29, ".2f"),
    ("kib_idle_socket", 15, ".1f"),
    ("kib_active_stream", 17, ".1f"),
)


def run(kind: str, argument: Any, case: Row) -> Row:
    """Run a case in a process of its own; one that fails is a row that says so."""
    script = Path(__file__).with_name("fanout_case.py")
    fields = {"kind": kind, "argument": argument} | case
    try:
        ran = subprocess.run(
            [sys.executable, str(script), json.dumps(fields)],
            capture_output=True,
            text=True,
            timeout=CASE_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        return failed(fields, error.stderr.strip().rpartition("\n")[2])
    except subprocess.TimeoutExpired as error:
        return failed(fields, str(error))
    sys.stderr.write(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def failed(fields: Row, why: str) -> Row:
    """The row of a case that failed."""
    row = fields | {"failed": why}
    print(f"failed: {row}", flush=True)
    return row


def bare_us(kinds: list[str], case: Row, repeats: int) -> dict[str, float]:
    """Medians of the bare servers' CPU for each frame."""
    found: dict[str, float] = {}
    for kind in kinds:
        rows = [run("bare", kind, case) for _ in range(repeats)]
        spent = [row["us_per_frame"] for row in rows if "failed" not in row]
        if spent:
            found[kind] = round(statistics.median(spent), 2)
    return found


def pace_of(sockets: int) -> float:
    """Tokens a second that leave room for everything else."""
    step_ms = 1e3 * sockets / PROBE_TOKENS_PER_S
    case = {"streams": sockets, "step_ms": step_ms, "seconds": PROBE_S}
    (us,) = bare_us(["uvicorn"], case, 1).values()
    return min(MOST_TOKENS_PER_S, round(BARE_SHARE * 1e6 / us))


def push(sockets: int, options: argparse.Namespace) -> list[Row]:
    """A row for each server and placement, each beside the same bare servers."""
    pace = options.tokens_per_s or pace_of(sockets)
    step_ms = 1e3 * sockets / pace
    case = {"streams": sockets, "step_ms": step_ms, "seconds": options.seconds}
    bare = bare_us(options.bare, case, options.repeats)
    found: list[Row] = []
    for server in options.servers:
        for placement in options.placements:
            rows = [
                run("legato", server, case | {"placement": placement})
                for _ in range(options.repeats)
            ]
            rows = [row for row in rows if "failed" not in row]
            if not rows:
                continue
            rows.sort(key=lambda row: row["us_per_token"])
            best = {"bare_us_per_frame": min(bare.values()), "bare_servers": bare}
            found.append(rows[len(rows) // 2] | best)
            print("  ".join(f"{found[-1][n]:{w}{f}}" for n, w, f in COLUMNS))
            sys.stdout.flush()
    return found


def misbehave(options: argparse.Namespace) -> Row:
    """What one costs who stops reading, and what thousands leave who come and go."""
    case = {"step_ms": STEP_MS, "seconds": options.seconds}
    found = run("stalled", options.servers[0], case | {"streams": 1})
    print(found, flush=True)
    if options.churn:
        churn = run("churn", options.churn, case | {"streams": CHURN_STREAMS})
        print(churn, flush=True)
        found |= churn
    return found


def numbers(text: str) -> list[int]:
    """A list of numbers with commas."""
    return [int(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """A list with commas, without granian where it is not installed."""
    found = text.split(",")
    if "granian" in found and not HAS_GRANIAN:
        print("granian is not installed: it is left out")
        found.remove("granian")
    return found


def versions() -> dict[str, str]:
    """Of the servers, and the loop."""
    used = ["uvicorn", "uvloop", "websockets", *(["granian"] if HAS_GRANIAN else [])]
    return {name: version(name) for name in used}


def main() -> None:
    """Measure, and print one JSON object last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sockets", type=numbers, default="1000,4000")
    parser.add_argument("--placements", type=names, default="thread,process")
    parser.add_argument(
        "--servers", type=names, default="uvicorn", help="and plain,granian,websockets"
    )
    parser.add_argument("--bare", type=names, default=",".join(BARE))
    parser.add_argument("--tokens-per-s", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--churn", type=int, default=10_000, help="0: none")
    parser.add_argument("--awake", action="store_true")
    options = parser.parse_args()
    print("  ".join(f"{name:>{width}}" for name, width, _ in COLUMNS), flush=True)
    with awake(options.awake):
        rows = [row for sockets in options.sockets for row in push(sockets, options)]
        others = misbehave(options)
    result = {
        "benchmark": "fanout",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": psutil.cpu_count(),
        "load_average": psutil.getloadavg(),
        "versions": versions(),
        "repeats": options.repeats,
        "awake": options.awake,
        "rows": rows,
    }
    print(json.dumps(result | others))


if __name__ == "__main__":
    main()
