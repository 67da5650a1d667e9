"""The command line, as a person meets it."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from legato import __version__
from legato.cli import main

LEGATO = (sys.executable, "-m", "legato")


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, args, input=stdin)


def test_the_version_is_told():
    result = CliRunner().invoke(main, ["--version"])
    assert result.output.strip() == f"legato, version {__version__}"


@pytest.mark.parametrize(
    "command", ["chat", "generate", "serve", "bench", "models", "doctor"]
)
def test_every_command_helps_with_examples(command: str):
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"legato {command}" in result.output


def test_models_lists_the_embedded_one():
    result = CliRunner().invoke(main, ["models"])
    assert result.exit_code == 0
    assert "smollm2" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.gguf", None, "missing.gguf"),
        ("empty.gguf", b"", "empty.gguf"),
        ("noise.gguf", b"not a model at all" * 10, "noise.gguf"),
        ("cut.gguf", b"GGUF\x03\x00\x00\x00\xff\xff", "cut.gguf"),
    ],
)
def test_a_bad_model_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, name: str, content: bytes | None, message: str
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    ran = run("chat", "--model", str(path), "-p", "hi")
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert message in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_bad_option_value_is_one_clear_line_and_exit_code_2():
    ran = run("generate", "hi", "--model", "fake", "--temperature", "-1")
    assert ran.exit_code == 2
    assert ran.stderr == "legato: temperature: must be a number in [0, 100], got -1.0\n"


@pytest.mark.slow
def test_text_piped_in_is_answered_once():
    ran = run("chat", "--model", "fake", "--max-tokens", "5", stdin="hello\n")
    assert ran.exit_code == 0
    assert ran.stdout.strip("\n")
    again = run(
        "chat", "--model", "fake", "--max-tokens", "5", "-p", "hello\n", stdin=""
    )
    assert again.exit_code == 0


@pytest.mark.slow
def test_generate_continues_standard_input():
    ran = run("generate", "--model", "fake", "--max-tokens", "3", stdin="hello")
    assert ran.exit_code == 0


@pytest.mark.slow
def test_an_empty_prompt_is_refused():
    ran = run("generate", "--model", "fake", stdin="")
    assert ran.exit_code == 2
    assert "empty" in ran.stderr


SILENCE_S = 60.0
PATIENCE_S = 5.0
# The named fake answers at once, and would be done before anybody could stop it.
PACED = """
from legato.gpu.fake_model import FakeModel
FakeModel.__init__.__kwdefaults__["step_s"] = 0.01
from legato.cli import main
main()
"""


class Silence(AssertionError):
    """Nothing came."""


class Terminal:
    """A chat in a real terminal, typed at and read."""

    def __init__(self, *args: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(sys.executable, [sys.executable, "-c", PACED, *args])
        self.seen = ""
        self.running = True

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def interrupt(self, pattern: str) -> None:
        """Press Ctrl-C until the pattern comes, as people do.

        Python's line editing loses one that comes just before it waits for a key.
        """
        for _ in range(10):
            self.type("\x03")
            try:
                self.until(pattern, PATIENCE_S)
                return
            except Silence:
                pass
        self.until(pattern)

    def until(self, pattern: str, silence_s: float = SILENCE_S) -> str:
        """Read until the pattern has come since the last call."""
        while not (found := re.search(pattern, self.seen)):
            # Only so that a chat that says nothing fails one test and not the run.
            ready, _, _ = select.select([self.fd], [], [], silence_s)
            if not ready:
                raise Silence(f"nothing came before {pattern!r}: {self.seen}")
            try:
                chunk = os.read(self.fd, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                raise AssertionError(f"the chat ended before {pattern!r}: {self.seen}")
            self.seen += chunk.decode(errors="replace")
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before

    def wait(self) -> int:
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        _, status = os.waitpid(self.pid, 0)
        self.running = False
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    chat = Terminal("chat", "--model", "fake", "--max-tokens", "2000")
    yield chat
    os.close(chat.fd)
    if chat.running:
        os.kill(chat.pid, signal.SIGKILL)
        os.waitpid(chat.pid, 0)


@pytest.mark.slow
def test_ctrl_c_stops_the_reply_and_not_the_program(terminal: Terminal):
    terminal.until("/help lists commands")
    terminal.until("> ")
    terminal.type("talk forever\n")
    terminal.until("talk forever\r\n")
    terminal.until("\\S")
    terminal.interrupt(r"\(stopped\)")
    terminal.until("> ")
    terminal.type("/stats\n")
    terminal.until("last reply|no reply yet")
    terminal.until("pages: ")
    terminal.until("> ")
    terminal.type("/system be brief\n")
    terminal.until("with that system prompt")
    terminal.type("/reset\n")
    terminal.until("a new conversation")
    terminal.type("/nonsense\n")
    terminal.until("no command /nonsense")
    terminal.until("> ")
    terminal.type("/quit\n")
    assert terminal.wait() == 0


@pytest.mark.slow
def test_ctrl_d_leaves(terminal: Terminal):
    terminal.until("> ")
    terminal.type("\x04")
    assert terminal.wait() == 0


@pytest.mark.model
@pytest.mark.slow
def test_the_main_job_answers_from_the_embedded_model(smollm2: Path):
    ask = ("chat", "-p", "What is the capital of France?", "--temperature", "0")
    ran = subprocess.run(
        [*LEGATO, *ask], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert ran.returncode == 0
    assert ran.stdout == "The capital of France is Paris.\n"


@pytest.mark.parametrize("command", [["chat"], ["chat", "-p", "  "]])
def test_nothing_to_ask_is_a_usage_error(command: list[str]):
    ran = run(*command, "--model", "fake")
    assert ran.exit_code == 2
    assert "nothing to ask" in ran.stderr


def test_a_model_that_is_not_there_is_named_with_the_nearest_before_torch_loads():
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "legato", "serve", "-m", "smolm2"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert "no model 'smolm2'; did you mean 'smollm2'?" in ran.stderr
    assert " torch\n" not in ran.stderr


def test_a_model_named_as_on_a_hub_says_how_to_download_it():
    ran = run("serve", "-m", "some-lab/Some-Model-1B")
    assert ran.exit_code == 2
    assert "hf download some-lab/Some-Model-1B" in ran.stderr
    assert "hf download" not in run("serve", "-m", "models/x.gguf").stderr


def test_a_taken_port_is_said_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = run("serve", "--model", "fake", "--port", port)
    assert ran.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ran.stderr
