"""A rank that does not lead: the process around its runner.

Run as ``python -m legato.gpu.parallel.rank FD``; only ``crew`` does so. It takes plans
until its line is hung up or its parent dies.
"""

import contextlib
import os
import queue
import shutil
import signal
import socket
import sys
import threading
from collections import deque

from ...protocol.errors import Failure
from ...protocol.steps import StepPlan
from ..runner import StepHandle
from .line import Line
from .words import ORDERS, PLANS, RankFailed, RankOrder, RankReady

Plans = queue.SimpleQueue[StepPlan]


def main() -> None:
    """Become the rank that is ordered."""
    # Ctrl-C reaches the whole process group; when to end is the leader's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = Line(socket.socket(fileno=int(sys.argv[1])))
    order = line.receive(ORDERS)
    plans: Plans = queue.SimpleQueue()
    listening = threading.Thread(
        target=listen, args=(line, plans, order.folder), daemon=True
    )
    listening.start()
    try:
        serve(order, line, plans)
    except BaseException as error:
        with contextlib.suppress(OSError):
            line.send(RankFailed(Failure.of(error)))
    os._exit(1)


def listen(line: Line, plans: Plans, folder: str) -> None:
    """Take plans; leave at once when the line is over.

    In a thread of its own, and without farewells: the leader may die while this rank
    waits for it in the middle of a step, for ever if nobody looked.
    """
    try:
        while True:
            plans.put(line.receive(PLANS))
    except (EOFError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def serve(order: RankOrder, line: Line, plans: Plans) -> None:
    """Build the runner with the other ranks, then run every plan."""
    from ..checkpoint import open_checkpoint
    from .assembly import build_rank

    checkpoint = open_checkpoint(order.model)
    runner = build_rank(
        checkpoint, order, before_meeting=lambda: line.send(RankReady())
    )
    running: deque[StepHandle] = deque()
    while True:
        running.append(runner.launch(plans.get()))
        if len(running) >= runner.launch_depth:
            running.popleft().wait()


if __name__ == "__main__":
    main()
