"""Garbage collection, which has nothing to find while modules and models load."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Collect nothing meanwhile, and never look again at what was made.

    A start takes half a second of CPU less, full collections later find little to walk
    through, and so does the last one, when the program ends.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
