"""Compiling the kernels while the rest is imported, at a machine's first start."""

import contextlib
import threading
from typing import Any


def compile_ahead(options: dict[str, Any]) -> None:
    """Begin to compile, if these options will want the kernels and there are none yet.

    What comes of it is seen when they are loaded.
    """
    wanted = options["device"] != "cuda" and options["dtype"] in ("auto", "int8")
    wanted = wanted and options["tensor_parallel"] == 1
    if options["model"] != "fake" and wanted:
        threading.Thread(target=_compile, name="legato-compiler", daemon=True).start()


def _compile() -> None:
    from ..gpu.native.build import KernelsUnavailable, build_library

    with contextlib.suppress(KernelsUnavailable):
        build_library()
