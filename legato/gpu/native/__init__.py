"""Kernels for CPUs in C++, compiled where they run; without a compiler, torch does it.

Imported only by what assembles a runner: finding the kernels may compile them.
"""

from .library import Kernels, KernelsUnavailable, load_kernels

__all__ = ["Kernels", "KernelsUnavailable", "load_kernels"]
