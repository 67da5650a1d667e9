import sys

import pytest

from legato.gpu.machine.inquiry import MARK, NoAnswer, ask, ask_facts


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_an_answer_is_what_the_other_process_prints() -> None:
    assert ask(python("print('hello')"), 30) == "hello\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/no/such/tool"], "/no/such/tool: No such file"),
        (python("raise ImportError('libcudart.so is gone')"), "libcudart.so is gone"),
        (python("raise SystemExit(3)"), "exit status 3"),
        (python("import os; os.kill(os.getpid(), 11)"), "killed by signal 11"),
    ],
)
def test_no_answer_is_a_reason_in_one_line(command: list[str], told: str) -> None:
    with pytest.raises(NoAnswer, match=told) as caught:
        ask(command, 30)
    assert "\n" not in str(caught.value)


def test_a_process_that_hangs_is_ended_with_all_that_it_started() -> None:
    # The grandchild holds the output, which would keep a reader of a pipe waiting.
    code = "import subprocess; subprocess.run(['sleep', '600'])"
    with pytest.raises(NoAnswer, match=r"no answer within 0\.2 s"):
        ask(python(code), 0.2)


def test_facts_are_found_among_what_libraries_print(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = f"a banner\n{MARK}[1, 2]\na last word\n"
    monkeypatch.setattr("legato.gpu.machine.inquiry.ask", lambda *_: said)
    assert ask_facts("some.module", 1) == b"[1, 2]"


def test_no_facts_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.gpu.machine.inquiry.ask", lambda *_: "a banner\n")
    with pytest.raises(NoAnswer, match="said nothing"):
        ask_facts("some.module", 1)
