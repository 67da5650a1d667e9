"""Keeping the cores awake while something is measured.

A core that sleeps between two steps wakes slowly, above all in a virtual machine, where
the host gets it meanwhile and its caches and branch history are another's: what runs
then takes two to four times its CPU time. Servers tuned for latency forbid their cores
to sleep; this does the same without their privileges, by one process a core that spins
at idle priority, and so gives way to everything else at once. Linux alone.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator

SPIN = """
import os, sys
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def awake(wanted: bool) -> Generator[None]:
    """Keep every core awake inside, if wanted."""
    cores = (os.cpu_count() or 1) if wanted else 0
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(cores)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
