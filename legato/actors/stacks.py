"""Where every thread stands: the last thing to know of what hangs or crashes."""

import faulthandler
import os
import sys
import tempfile
import threading
from typing import IO


def open_stacks() -> IO[bytes]:
    """Open a nameless file for a fault handler, in memory where that can be."""
    if sys.platform == "linux":
        try:
            return os.fdopen(os.memfd_create("legato-stacks"), "w+b")
        except OSError:
            pass  # a sandbox that allows none
    return tempfile.TemporaryFile()


def read_stacks(file: IO[bytes]) -> str:
    """Read what a fault handler wrote to its file, or ""."""
    file.seek(0)
    return file.read().decode(errors="replace").strip()


def own_stacks() -> str:
    """The Python stacks of this process's threads, with their names."""
    with open_stacks() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        text = read_stacks(file)
    for thread in threading.enumerate():
        number = f"0x{thread.ident or 0:016x}"
        text = text.replace(number, f"{number} {thread.name}")
    return text
