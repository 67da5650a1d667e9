"""A graph for CPUs that keeps to what CUDA graphs can and cannot do.

Work is run once while every operator is written down with its very arguments. A replay
runs those operators again on those tensors: numbers that Python computed in between are
frozen, and Python itself is not asked any more.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .device import Work

# What a capture on CUDA refuses, by name: the host would wait for a value, or the
# device read ordinary host memory.
REFUSED = frozenset(
    {
        "aten._local_scalar_dense.default",
        "aten.nonzero.default",
        "aten.masked_select.default",
        "aten.equal.default",
        "aten.lift_fresh.default",
    }
)


class TapeGraph:
    """Operators and their arguments, in order."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    @classmethod
    def of(cls, work: Work) -> "TapeGraph":
        """Write work down while it runs.

        Raises:
            RuntimeError: It does what a capture on CUDA refuses.
        """
        graph = cls()
        with Recorder(graph._calls):
            work()
        return graph

    def replay(self) -> None:
        """Run the operators again; their results go where the first ones went."""
        for operator, args, kwargs, results in self._calls:
            again = operator(*args, **kwargs)
            inputs = {_home(one) for one in _tensors((args, kwargs))}
            for was, now in zip(_tensors(results), _tensors(again), strict=True):
                # Views and in-place operators have their results where they belong.
                if _home(was) not in inputs:
                    was.copy_(now)


class Recorder(TorchDispatchMode):
    """Writes down every operator that runs.

    Args:
        calls: Where: operator, arguments, results.
    """

    def __init__(self, calls: list[tuple[Callable[..., Any], Any, Any, Any]]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # torch's own
        self._calls = calls

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import its compiler to turn it off: 2 s, and some at every call.
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if str(func) in REFUSED or _picks_by_mask(func, args):
            raise RuntimeError(f"{func} cannot be captured")
        results = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, results))
        return results


def _picks_by_mask(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether the result's size would depend on a tensor's values."""
    if not str(func).startswith(("aten.index.Tensor", "aten.index_put")):
        return False
    return any(one.dtype == torch.bool for one in _tensors(args[1]))


def _tensors(tree: Any) -> Iterable[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _home(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
