from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from legato.gpu.parallel.group import Group, TorchGroup, open_group
from legato.protocol.errors import InvalidSetting

CPU = torch.device("cpu")
SIZE = 3
Together = Callable[[Callable[[Group], Any]], list[Any]]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    """Run something on every rank at once, each in a thread; results by rank."""
    folder = tmp_path_factory.mktemp("ranks")
    with ThreadPoolExecutor(SIZE) as threads:
        meeting = [
            threads.submit(open_group, folder, rank, SIZE, CPU) for rank in range(SIZE)
        ]
        groups = [met.result() for met in meeting]
        yield lambda work: list(threads.map(work, groups))
    for group in groups:
        group.close()
        group.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_sum_is_the_same_on_every_rank(
    together: Together, dtype: torch.dtype
) -> None:
    sums = together(lambda group: group.sum(torch.arange(5).to(dtype) + group.rank))
    for found in sums:
        assert found.dtype == dtype
        assert found.tolist() == [3, 6, 9, 12, 15]


def test_columns_are_gathered_in_the_order_of_ranks(together: Together) -> None:
    gathered = together(
        lambda group: group.gather(torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * group.rank)
    )
    for found in gathered:
        assert found.tolist() == [[0, 0, 1, 2, 2, 4], [0, 0, 3, 4, 6, 8]]


def test_what_the_first_has_is_shared(together: Together) -> None:
    shared = together(lambda group: group.share(torch.tensor([group.rank + 7])))
    assert [found.item() for found in shared] == [7, 7, 7]


def test_the_least_is_found(together: Together) -> None:
    assert together(lambda group: group.least(10 - group.rank)) == [8, 8, 8]


@pytest.mark.parametrize("lacks", ["torch.distributed", "NCCL"])
def test_a_torch_without_the_means_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.setattr(
        torch.distributed, "is_available", lambda: lacks != "torch.distributed"
    )
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(InvalidSetting, match=f"no {lacks}: use tensor_parallel 1"):
        open_group(tmp_path, 0, 2, torch.device("cuda", 0))


def test_a_group_on_cuda_gives_up_where_a_rank_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    class Backend:
        def abort(self) -> None:
            said.append("abort")

    monkeypatch.setattr("legato.gpu.parallel.group._nccl", lambda *_: Backend())
    group = TorchGroup(None, 0, 2, torch.device("cuda", 0))
    group.abort()
    group.close()
    group.close()
    assert said == ["abort", "abort"]
