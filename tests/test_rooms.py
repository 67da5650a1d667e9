"""The shape of the project: sizes, links, and the name that must not be shadowed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "legato").rglob("*.py"))
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 40


def test_every_file_is_at_most_300_lines():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in SOURCES
        if (lines := len(path.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert not long


def test_every_function_is_at_most_40_lines_without_its_docstring():
    long: dict[str, int] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = body_lines(node)
                if lines > MAX_FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert not long


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    described = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = node.lineno
    end = node.end_lineno or start
    docstring = (first.end_lineno or 0) - first.lineno + 1 if described else 0
    return end - start + 1 - docstring


def test_every_room_has_an_init():
    folders = {path.parent for path in SOURCES}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize("room", ["actors", "mailbox", "gpu", "protocol"])
def test_the_top_level_shows_the_rooms_as_links(room: str):
    link = ROOT / room
    if not link.is_symlink():
        pytest.skip("this checkout has no links; nothing else depends on them")
    assert link.readlink() == Path("legato") / room


def test_a_stray_import_of_mailbox_fails_loudly():
    code = "import mailbox; print(mailbox.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    if (ROOT / "mailbox").exists():
        assert ran.returncode != 0
        assert "relative import" in ran.stderr
    else:
        assert "site-packages" not in ran.stdout


# Importing torch takes seconds; a loop that did so would answer nobody meanwhile.
@pytest.mark.parametrize("rooms", ["legato.cli", "legato.engine, legato.serve"])
def test_importing_legato_does_not_wait_for_torch(rooms: str):
    code = f"import sys, {rooms}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "tests")


@pytest.mark.slow
@pytest.mark.parametrize("room", ["legato.gpu.cuda", "legato.gpu.parallel.crew"])
def test_a_model_on_a_cpu_imports_nothing_for_other_devices(room: str):
    code = "import sys, legato.gpu.checkpoint_model; "
    code += f"assert {room!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "tests")
