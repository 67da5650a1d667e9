"""Compiles the kernels, once for each machine, compiler and source.

Several processes may do so at once: each compiles into a file of its own and renames
it, so that a library is either whole or not there.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

SOURCES = Path(__file__).parent / "kernels"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O3", "-std=c++20", "-shared", "-fPIC", "-pthread")
# Sums may be reordered into vectors; NaN and infinity keep their meaning.
LOOSE = (
    *("-fno-math-errno", "-fno-trapping-math"),
    *("-fassociative-math", "-fno-signed-zeros"),
)
TIMEOUT_S = 300
# Who asks while another thread compiles waits for it, instead of compiling too.
_COMPILING = threading.Lock()


class KernelsUnavailable(Exception):
    """There are no kernels on this machine; the text says why."""


def build_library(cache: Path | None = None) -> Path:
    """Find the compiled kernels, or compile them.

    Args:
        cache: Where they are kept; None is LEGATO_CACHE or the user's cache.

    Raises:
        KernelsUnavailable: Switched off, no compiler, or it failed.
    """
    target, command = library_path(cache)
    with _COMPILING:
        if not target.exists():
            compile_to(target, command)
    return target


def library_path(cache: Path | None = None) -> tuple[Path, list[str]]:
    """Where the compiled kernels are or will be, and the command that makes them.

    Raises:
        KernelsUnavailable: Switched off, or no compiler.
    """
    if os.environ.get("LEGATO_NATIVE", "1") == "0":
        raise KernelsUnavailable("LEGATO_NATIVE is 0")
    command = compiler_command()
    folder = cache or cache_folder()
    target = folder / f"kernels-{fingerprint(SOURCES, command)}.so"
    return target, [*command, str(SOURCES / "kernels.cpp")]


def cache_folder() -> Path:
    """Where compiled kernels are kept between runs."""
    if chosen := os.environ.get("LEGATO_CACHE"):
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "legato"


def compiler_command() -> list[str]:
    """The compiler and its flags.

    Raises:
        KernelsUnavailable: There is none.
    """
    chosen = shlex.split(os.environ.get("CXX", ""))
    for name, *options in [chosen] if chosen else [[name] for name in COMPILERS]:
        if found := shutil.which(name):
            is_arm = platform.machine().lower() in ("aarch64", "arm64")
            tuned = "-mcpu=native" if is_arm else "-march=native"
            return [found, *options, tuned, *FLAGS, *LOOSE]
    tried = chosen[0] if chosen else ", ".join(COMPILERS)
    raise KernelsUnavailable(f"no C++ compiler ({tried})")


def fingerprint(sources: Path, command: list[str]) -> str:
    """Hash what the library depends on: source, compiler, flags, processor."""
    parts = [" ".join(command), _version(command[0]), _processor()]
    parts += [path.read_text("utf-8") for path in sorted(sources.iterdir())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def compile_to(target: Path, command: list[str]) -> None:
    """Compile beside the target, then rename.

    Raises:
        KernelsUnavailable: With the compiler's first words.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            subprocess.run(
                [*command, "-o", str(made)],
                check=True,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
            made.replace(target)
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip().splitlines() or ["nothing"]
        raise KernelsUnavailable(f"{command[0]} failed: {said[0]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelsUnavailable(f"compiling: {error}") from error


def _version(compiler: str) -> str:
    try:
        asked = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelsUnavailable(f"{compiler}: {error}") from error
    return asked.stdout


def _processor() -> str:
    """The instruction sets: a cache may be shared between machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    known = ("flags", "Features", "model name")
    return "\n".join(
        next((line for line in lines if line.startswith(name)), "") for name in known
    )
