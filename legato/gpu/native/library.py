"""The compiled kernels as Python functions.

Calls release the GIL. A wrong pointer is undefined behaviour, so each class here checks
what it passes on, and keeps alive what it points to.
"""

import ctypes
import logging
import weakref
from functools import cache
from typing import TYPE_CHECKING

from .build import KernelsUnavailable, build_library
from .structures import Batch, Cache, Decodes, Int, Model, Step, Weights, Wish

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)
Pointer = ctypes.c_void_p
SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "is_vectorised": (Int, ()),
    "fits_nibbles": (Int, (Pointer, Int, Int)),
    "pack": (None, (Pointer, ctypes.POINTER(Weights), Pointer)),
    "pack_stored": (
        None,
        (Pointer, Int, Int, ctypes.POINTER(Weights), Pointer, Int),
    ),
    "unpack": (None, (ctypes.POINTER(Weights), Pointer, Int, Pointer)),
    "open_pool": (Pointer, (Int,)),
    "close_pool": (None, (Pointer,)),
    "project": (
        None,
        (Pointer, ctypes.POINTER(Weights), Pointer, Int, Pointer, Int),
    ),
    "attend": (
        None,
        (
            *(Pointer, ctypes.POINTER(Cache), ctypes.POINTER(Batch)),
            *(Pointer, Int, Pointer),
        ),
    ),
    "open": (Pointer, (ctypes.POINTER(Model), Int)),
    "forward": (None, (Pointer, ctypes.POINTER(Step))),
    "decode": (Int, (Pointer, ctypes.POINTER(Decodes))),
    "choose": (
        None,
        (
            *(Pointer, Pointer, Pointer, ctypes.POINTER(Wish)),
            *(Pointer, Int, Pointer),
        ),
    ),
    "close": (None, (Pointer,)),
}


class Kernels:
    """A loaded library.

    Args:
        library: Made of kernels/kernels.cpp.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, f"legato_{name}")
            function.restype, function.argtypes = result, arguments
        self.is_vectorised = bool(library.legato_is_vectorised())
        self.fits_nibbles = library.legato_fits_nibbles
        self.pack = library.legato_pack
        self.pack_stored = library.legato_pack_stored
        self.unpack = library.legato_unpack
        self.project = library.legato_project
        self.attend = library.legato_attend
        self.forward = library.legato_forward
        self.decode = library.legato_decode
        self.choose = library.legato_choose
        self._library = library

    def pool(self, owner: object, num_threads: int) -> Pointer:
        """Start threads that end with their owner."""
        return self._owned(owner, "pool", Int(num_threads))

    def decoder(self, owner: object, model: Model, num_threads: int) -> Pointer:
        """Make a decoder that ends with its owner."""
        return self._owned(owner, "", ctypes.byref(model), Int(num_threads))

    def _owned(self, owner: object, kind: str, *arguments: object) -> Pointer:
        suffix = f"_{kind}" if kind else ""
        made = Pointer(getattr(self._library, f"legato_open{suffix}")(*arguments))
        close = getattr(self._library, f"legato_close{suffix}")
        weakref.finalize(owner, close, made)
        return made


@cache
def load_kernels() -> Kernels | KernelsUnavailable:
    """Load the kernels, once for each process; compiling them takes seconds.

    Returns:
        The reason, where there are none.
    """
    try:
        return Kernels(ctypes.CDLL(str(build_library())))
    except KernelsUnavailable as error:
        reason = error
    except (OSError, AttributeError) as error:
        reason = KernelsUnavailable(f"loading: {error}")
    log.warning("no native kernels (%s); torch computes instead", reason)
    return reason


def address(tensor: "torch.Tensor") -> int:
    """Where a tensor's numbers are; it must outlive the use.

    Raises:
        ValueError: They are not side by side in a CPU's memory.
    """
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("kernels take contiguous tensors in a CPU's memory")
    return tensor.data_ptr()
