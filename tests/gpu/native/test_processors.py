"""The kernels compute the same on other processors, emulated where tools for it are."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from legato.gpu.native.build import COMPILERS, LOOSE, SOURCES

PROGRAM = Path(__file__).parent / "arithmetic.cpp"
CHOSEN = 80  # the last numbers: tokens
ARM = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12", "aarch64-linux-gnu-g++-14")
Compute = Callable[..., "np.ndarray[tuple[int], np.dtype[np.float32]]"]

pytestmark = pytest.mark.slow


def found(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no {' or '.join(names)}")


@pytest.fixture(scope="module")
def compute(tmp_path_factory: pytest.TempPathFactory) -> Compute:
    folder = tmp_path_factory.mktemp("arithmetic")

    def run(compiler: str, *flags: str, emulator: tuple[str, ...] = ()) -> np.ndarray:
        program, numbers = folder / "program", folder / "numbers"
        flags = ("-O1", "-std=c++20", "-pthread", *LOOSE, *flags, "-I", str(SOURCES))
        subprocess.run(
            [compiler, *flags, str(PROGRAM), "-o", str(program)],
            check=True,
            stderr=subprocess.PIPE,
        )
        subprocess.run([*emulator, str(program), str(numbers)], check=True)
        return np.fromfile(numbers, np.float32)

    return run


@pytest.fixture(scope="module")
def plain(compute: Compute) -> np.ndarray:
    """By code for any processor, compiled for this one."""
    return compute(found(*COMPILERS), "-Wno-psabi")


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert len(got) == len(want)
    np.testing.assert_array_equal(got[-CHOSEN:], want[-CHOSEN:])
    np.testing.assert_allclose(got[1:], want[1:], atol=2e-5, rtol=2e-5)


def test_this_processors_own_instructions(compute: Compute, plain: np.ndarray) -> None:
    same(compute(found(*COMPILERS), "-march=native"), plain)


@pytest.mark.parametrize("extension", ["", "+dotprod"])
def test_arm(compute: Compute, plain: np.ndarray, extension: str) -> None:
    got = compute(
        *(found(*ARM), "-static", f"-march=armv8.2-a{extension}"),
        emulator=(found("qemu-aarch64", "qemu-aarch64-static"),),
    )
    assert got[0] == bool(extension)
    same(got, plain)
