import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from legato.gpu.native import KernelsUnavailable
from legato.gpu.native.build import build_library, compiler_command


def test_kernels_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEGATO_NATIVE", "0")
    with pytest.raises(KernelsUnavailable, match="LEGATO_NATIVE is 0"):
        build_library(tmp_path)


def test_no_compiler_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelsUnavailable, match="no C\\+\\+ compiler"):
        build_library(tmp_path)


def test_a_failing_compiler_is_a_reason_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho cannot >&2\ntest $1 = --version\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    cache = tmp_path / "cache"
    with pytest.raises(KernelsUnavailable, match="broken failed: cannot"):
        build_library(cache)
    assert list(cache.iterdir()) == []


def fake_compiler(folder: Path, version: str = "1") -> Path:
    """A compiler that writes its own process's number, slowly enough to overlap."""
    compiler = folder / f"compiler-{version}"
    compiler.write_text(
        "#!/bin/sh\n"
        f"if [ $1 = --version ]; then echo {version}; exit; fi\n"
        f"echo x >> {folder}/calls\n"
        'for last; do :; done\necho "$$" > "$last"\n'
    )
    compiler.chmod(0o755)
    return compiler


def test_a_second_start_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler(tmp_path)))
    monkeypatch.setenv("LEGATO_CACHE", str(tmp_path / "cache"))
    first = build_library()
    assert first.parent == tmp_path / "cache"
    assert build_library() == first
    assert (tmp_path / "calls").read_text() == "x\n"


def test_threads_that_build_at_once_compile_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler(tmp_path)))
    with ThreadPoolExecutor(3) as threads:
        assert len(set(threads.map(build_library, [tmp_path / "cache"] * 3))) == 1
    assert (tmp_path / "calls").read_text() == "x\n"


def test_finding_kernels_needs_no_torch() -> None:
    code = "import sys, legato.gpu.native; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_compiler_compiles_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = set()
    for version in ("1", "2"):
        monkeypatch.setenv("CXX", str(fake_compiler(tmp_path, version)))
        made.add(build_library(tmp_path / "cache"))
    assert len(made) == 2


def test_options_of_the_chosen_compiler_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = fake_compiler(tmp_path)
    monkeypatch.setenv("CXX", f"{compiler} -pthread")
    assert compiler_command()[:2] == [str(compiler), "-pthread"]


def test_a_cache_that_cannot_be_written_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler(tmp_path)))
    (tmp_path / "file").touch()
    with pytest.raises(KernelsUnavailable, match="compiling"):
        build_library(tmp_path / "file" / "cache")


@pytest.mark.slow
def test_processes_that_build_at_once_find_one_whole_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler(tmp_path)))
    monkeypatch.setenv("LEGATO_CACHE", str(tmp_path / "cache"))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        found = pool.map(build_library, [None] * 6)
    (library,) = set(found)
    assert library.read_text().strip().isdigit()
    assert list((tmp_path / "cache").iterdir()) == [library]
