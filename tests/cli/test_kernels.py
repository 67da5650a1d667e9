import threading
from typing import Any

import pytest

from legato.cli.kernels import compile_ahead
from legato.gpu.native import build

PLAIN = {"model": "smollm2", "device": "auto", "dtype": "auto", "tensor_parallel": 1}


@pytest.mark.parametrize(
    ("change", "compiled"),
    [
        ({}, True),
        ({"dtype": "int8"}, True),
        ({"dtype": "float32"}, False),
        ({"device": "cuda"}, False),
        ({"tensor_parallel": 2}, False),
        ({"model": "fake"}, False),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_kernels_are_compiled_ahead_where_they_will_be_wanted(
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    compiled: bool,
    fails: bool,
) -> None:
    called: list[str] = []

    def compile_now() -> None:
        called.append("compiled")
        if fails:
            raise build.KernelsUnavailable("no compiler")

    monkeypatch.setattr(build, "build_library", compile_now)
    compile_ahead(PLAIN | change)
    for thread in threading.enumerate():
        if thread.name == "legato-compiler":
            thread.join()
    assert called == (["compiled"] if compiled else [])
