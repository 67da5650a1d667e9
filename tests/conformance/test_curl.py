"""The curl script, where there is curl."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.slow
def test_curl_gets_what_a_shell_expects(url):
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    script = Path(__file__).with_name("curl")
    ran = subprocess.run([script, url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
