"""A graph for CPUs that keeps to what CUDA graphs can and cannot do.

Work is run once while every operator is written down with its very arguments. A replay
runs those operators again on those tensors: numbers that Python computed in between are
frozen, and Python itself is not asked any more. Of memory from outside a recording has,
as on CUDA, addresses alone: what keeps it is the work, which is kept for that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
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


class Borrowed:
    """A tensor over memory that somebody else must keep.

    Args:
        tensor: As it is now.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._meta = tensor.dtype, tensor.storage_offset()
        self._shape = tensor.shape, tensor.stride()
        self._storage: Any = StorageWeakRef(tensor.untyped_storage())

    def tensor(self) -> torch.Tensor:
        """Look at the memory again.

        Raises:
            RuntimeError: It was freed; CUDA would read what is there now.
        """
        make: Any = torch.UntypedStorage
        storage = make._new_with_weak_ptr(self._storage.cdata)
        if storage is None:
            raise RuntimeError("a graph reads memory that was freed")
        (dtype, offset), (shape, strides) = self._meta, self._shape
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, strides)


@dataclass(frozen=True)
class Call:
    """An operator that ran.

    Args:
        operator: Which.
        given: Leaves of its arguments; tensors from outside are ``Borrowed``.
        form: Makes arguments of leaves.
        results: Tensors that came out, likewise.
    """

    operator: Callable[..., Any]
    given: list[Any]
    form: Any
    results: list[Any]


class TapeGraph:
    """Operators and their arguments, in order.

    Args:
        work: What was recorded.
    """

    def __init__(self, work: Work) -> None:
        self._calls: list[Call] = []
        self._work = work

    @classmethod
    def of(cls, work: Work) -> "TapeGraph":
        """Write work down while it runs.

        Raises:
            RuntimeError: It does what a capture on CUDA refuses.
        """
        graph = cls(work)
        with Recorder(graph._calls):
            work()
        own: set[int] = set()
        graph._calls = [_borrowing(call, own) for call in graph._calls]
        return graph

    def replay(self) -> None:
        """Run the operators again; their results go where the first ones went.

        Raises:
            RuntimeError: Memory from outside is gone.
        """
        for call in self._calls:
            given = [_present(leaf) for leaf in call.given]
            args, kwargs = pytree.tree_unflatten(given, call.form)
            again = call.operator(*args, **kwargs)
            inputs = {_home(one) for one in given if isinstance(one, torch.Tensor)}
            for was, now in zip(call.results, _tensors(again), strict=True):
                # Views and in-place operators have their results where they belong.
                place = _present(was)
                if _home(place) not in inputs:
                    place.copy_(now)


class Recorder(TorchDispatchMode):
    """Writes down every operator that runs.

    Args:
        calls: Where.
    """

    def __init__(self, calls: list[Call]) -> None:
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
        given, form = pytree.tree_flatten((args, kwargs or {}))
        results = func(*args, **(kwargs or {}))
        self._calls.append(Call(func, given, form, list(_tensors(results))))
        return results


def _borrowing(call: Call, own: set[int]) -> Call:
    """Let go of memory from outside.

    Args:
        call: As it was recorded, with all its tensors.
        own: Memory that calls before it made; what this one makes is added.
    """
    given = [one for one in call.given if isinstance(one, torch.Tensor)]
    outside = {_home(one) for one in given} - own
    own.update({_home(one) for one in call.results} - outside)

    def let_go(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and _home(leaf) not in own:
            return Borrowed(leaf)
        return leaf

    some = [let_go(leaf) for leaf in call.given]
    return Call(call.operator, some, call.form, [let_go(one) for one in call.results])


def _present(leaf: Any) -> Any:
    return leaf.tensor() if isinstance(leaf, Borrowed) else leaf


def _picks_by_mask(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether the result's size would depend on a tensor's values."""
    if not str(func).startswith(("aten.index.Tensor", "aten.index_put")):
        return False
    return any(one.dtype == torch.bool for one in _tensors(args[1]))


def _tensors(tree: Any) -> Iterable[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _home(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
