import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def url():
    """A running server's URL."""
    with running() as at:
        yield at


@pytest.fixture(scope="session")
def long_url():
    """The URL of a server whose answers last long enough to be cancelled."""
    with running("100") as at:
        yield at


@contextmanager
def running(*arguments):
    """Run the server; LEGATO_PYTHON is the Python that has Legato."""
    python = os.environ.get("LEGATO_PYTHON", sys.executable)
    script = Path(__file__).with_name("server.py")
    with subprocess.Popen(
        [python, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(30) == 0
