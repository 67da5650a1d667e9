"""Run in a child: imports torch and prints what it can do here.

In a child because the import may fail, crash or hang, and so may the look at a GPU.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from .inquiry import tell_facts

T = TypeVar("T")


def torch_facts() -> dict[str, Any]:
    """Find out; a part that fails says so and leaves the others.

    Raises:
        ImportError: Torch cannot be imported.
    """
    import torch

    faults: dict[str, str] = {}
    gpus = attempt(faults, "cuda", _gpus) or []
    devices: dict[str, Any] = {}
    for name in ("cpu", "cuda") if gpus else ("cpu",):
        device = attempt(faults, name, partial(_device, name))
        if device is not None:
            devices[name] = device
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda or "",
        "threads": torch.get_num_threads(),
        "gpus": gpus,
        "devices": devices,
        "faults": faults,
    }


def attempt(faults: dict[str, str], name: str, find: Callable[[], T]) -> T | None:
    """Find something out, or note why not."""
    try:
        return find()
    except Exception as error:
        words = " ".join(str(error).split())
        faults[name] = f"{type(error).__name__}: {words}"
        return None


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.version.cuda:
        return []
    if not torch.cuda.is_available():
        torch.cuda.init()  # says why
    return [
        {
            "name": torch.cuda.get_device_name(index),
            "capability": list(torch.cuda.get_device_capability(index)),
            "memory_bytes": torch.cuda.mem_get_info(index)[1],
        }
        for index in range(torch.cuda.device_count())
    ]


def _device(name: str) -> dict[str, Any]:
    """What the execution room's own choices come to on a device."""
    import torch

    from ..attention import available
    from ..precision import choose_dtype

    device = torch.device(name)
    dtype = str(choose_dtype("auto", device)).removeprefix("torch.")
    backends = [
        {"name": one.name, "available": one.runs, "why": one.reason}
        for one in sorted(available(device), key=lambda one: one.runs)
    ]
    return {"dtype": dtype, "attention": backends}


if __name__ == "__main__":
    tell_facts(torch_facts())
