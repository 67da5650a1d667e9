"""Kernels for CPUs in C++, compiled where they run; without a compiler, torch does it.

Imports no torch, so that they can be compiled while it loads.
"""

from .library import Kernels, KernelsUnavailable, load_kernels

__all__ = ["Kernels", "KernelsUnavailable", "load_kernels"]
