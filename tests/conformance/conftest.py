import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def url():
    """A running server's URL; LEGATO_PYTHON is the Python that has Legato."""
    python = os.environ.get("LEGATO_PYTHON", sys.executable)
    script = Path(__file__).with_name("server.py")
    with subprocess.Popen(
        [python, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(30) == 0
