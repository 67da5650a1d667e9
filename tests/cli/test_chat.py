"""The prompt of ``legato chat``, with every key pressed at a set moment."""

import asyncio
import builtins
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from legato.cli import chat, main


class Keys:
    """What is typed, line by line; ``^C`` and ``^D`` are keys, and end what is begun.

    ``abc^C`` is Ctrl-C on a line that has something on it.
    """

    def __init__(self, *lines: str) -> None:
        self._lines: Iterator[str] = iter(lines)
        self.begun = ""

    def input(self, _prompt: str) -> str:
        line = next(self._lines)
        self.begun = line.removesuffix("^C").removesuffix("^D")
        if line.endswith("^C"):
            raise KeyboardInterrupt
        if line.endswith("^D"):
            raise EOFError
        return line


class Talker:
    """A conversation that is interrupted where it is told to be."""

    greeting = "hello"

    def __init__(self, interrupted: str = "") -> None:
        self.interrupted = interrupted
        self.taken: list[str] = []

    async def settle(self) -> None:
        pass

    def command(self, line: str) -> str:
        if line == self.interrupted:
            raise KeyboardInterrupt
        self.taken.append(line)
        return f"did {line}"

    async def reply(self, line: str) -> None:
        if line == self.interrupted:
            raise KeyboardInterrupt
        self.taken.append(line)


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(talker: Talker, *lines: str) -> None:
        keys = Keys(*lines)
        monkeypatch.setattr(builtins, "input", keys.input)
        monkeypatch.setattr(chat, "_enable_line_editing", lambda: lambda: keys.begun)
        with asyncio.Runner() as runner:
            chat._talk(runner, talker)

    return run


def test_ctrl_c_at_the_prompt_says_how_to_leave(
    talk: Any, capsys: pytest.CaptureFixture[str]
):
    talker = Talker()
    talk(talker, "one", "^C", "two", "/quit")
    assert talker.taken == ["one", "two"]
    assert capsys.readouterr().out.count("(Ctrl-C again, Ctrl-D or /quit leaves)") == 1


def test_ctrl_c_twice_at_an_empty_prompt_leaves(talk: Any):
    with pytest.raises(KeyboardInterrupt):
        talk(Talker(), "^C", "^C", "never")


def test_ctrl_c_on_a_line_takes_it_back_however_often(talk: Any):
    talker = Talker()
    talk(talker, "abc^C", "de^C", "f^C", "whole", "^D")
    assert talker.taken == ["whole"]


def test_ctrl_c_after_a_line_is_the_first_again(talk: Any):
    talker = Talker()
    talk(talker, "^C", "one", "^C", "two", "^D")
    assert talker.taken == ["one", "two"]


@pytest.mark.parametrize("where", ["/reset", "/stats", "say"])
def test_ctrl_c_in_a_command_or_reply_ends_that_alone(talk: Any, where: str):
    talker = Talker(interrupted=where)
    talk(talker, where, "next", "^D")
    assert talker.taken == ["next"]


def test_leaving_by_ctrl_c_is_one_line_and_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch,
):
    keys = Keys("^C", "^C")
    monkeypatch.setattr(builtins, "input", keys.input)
    monkeypatch.setattr(chat, "_enable_line_editing", lambda: lambda: keys.begun)
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(chat, "sys", terminal)
    ran = CliRunner().invoke(main, ["chat", "--model", "fake"])
    assert ran.exit_code == 130
    assert ran.stderr == "legato: interrupted\n"
    assert "Traceback" not in ran.output
