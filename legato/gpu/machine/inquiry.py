"""Asks another process, and gets an answer or a reason within a set time."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import msgspec

# What a child prints its facts behind: libraries write lines of their own.
MARK = "legato-facts: "
# A process that a driver holds cannot even be killed; it is left to itself.
BURIAL_S = 2.0


class NoAnswer(Exception):
    """There was none; the text says why, in one line."""


def ask(command: Sequence[str], timeout_s: float) -> str:
    """Run a command and read what it prints on standard output.

    Raises:
        NoAnswer: It is not there, failed, was killed, or took too long.
    """
    # Files, not pipes: a grandchild that lives on would keep a pipe open for ever.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ
                | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        except OSError as error:
            raise NoAnswer(f"{command[0]}: {error.strerror or error}") from error
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"no answer within {timeout_s:g} s") from None
        finally:
            _end(child)
        out.seek(0)
        err.seek(0)
        said, complaint = (file.read().decode(errors="replace") for file in (out, err))
    if code:
        raise NoAnswer(_reason(code, complaint or said))
    return said


def ask_facts(module: str, timeout_s: float) -> bytes:
    """Run a module of this room that prints facts; return them as JSON.

    Raises:
        NoAnswer: There were none; with the reason.
    """
    said = ask([sys.executable, "-W", "ignore", "-m", module], timeout_s)
    for line in reversed(said.splitlines()):
        if line.startswith(MARK):
            return line.removeprefix(MARK).encode()
    raise NoAnswer("it said nothing")


def tell_facts(facts: object) -> None:
    """Print facts for whoever asked."""
    print(MARK + msgspec.json.encode(facts).decode(), flush=True)


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is not None:
        return
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(BURIAL_S)


def _reason(code: int, complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)})"
    return lines[-1] if lines else f"exit status {code}"
