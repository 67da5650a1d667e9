"""Run in a child: loads the kernels if they are compiled, and prints what came of it.

A library made elsewhere can kill the process that loads it.
"""

import ctypes

from ..native.build import KernelsUnavailable, library_path
from ..native.library import Kernels
from .compiler import KernelFacts
from .inquiry import tell_facts


def kernel_facts() -> KernelFacts:
    """Find out."""
    try:
        path, _ = library_path()
        if not path.exists():
            return KernelFacts(str(path))
        kernels = Kernels(ctypes.CDLL(str(path)))
    except KernelsUnavailable as error:
        return KernelFacts(fault=str(error))
    except (OSError, AttributeError) as error:
        return KernelFacts(fault=f"loading: {error}")
    return KernelFacts(str(path), True, kernels.is_vectorised)


if __name__ == "__main__":
    tell_facts(kernel_facts())
