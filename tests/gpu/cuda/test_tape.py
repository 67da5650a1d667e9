from collections.abc import Callable

import pytest
import torch

from legato.gpu.cuda.tape import TapeGraph


def test_a_replay_reads_what_tensors_hold_now() -> None:
    x, out = torch.ones(3), torch.zeros(3)

    def work() -> None:
        out.copy_((x * 2).cumsum(0))

    graph = TapeGraph.of(work)
    x.fill_(5.0)
    graph.replay()
    assert out.tolist() == [10.0, 20.0, 30.0]


def test_a_replay_does_not_ask_python_again() -> None:
    out, numbers = torch.zeros(1), [1.0]

    def work() -> None:
        out.fill_(numbers[0])

    graph = TapeGraph.of(work)
    numbers[0] = 7.0
    graph.replay()
    assert out.tolist() == [1.0]


def test_views_of_what_is_computed_are_computed_again() -> None:
    x, out = torch.ones(2, 3), torch.zeros(3)

    def work() -> None:
        both = x + 1
        both[0].add_(both[1])
        out.copy_(both[0])

    graph = TapeGraph.of(work)
    x.fill_(2.0)
    graph.replay()
    assert out.tolist() == [6.0] * 3


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
        lambda x: bool((x > 0).all()),
    ],
    ids=["item", "nonzero", "by mask", "from the host", "branch"],
)
def test_what_cuda_cannot_capture_is_refused(
    work: Callable[[torch.Tensor], object],
) -> None:
    with pytest.raises(RuntimeError, match="cannot be captured"):
        TapeGraph.of(lambda: print(work(torch.ones(3))))


def test_a_graph_keeps_what_its_work_refers_to() -> None:
    def capture() -> TapeGraph:
        places = torch.arange(2)
        return TapeGraph.of(lambda: (out.copy_(x[places]), None)[1])

    x, out = torch.ones(3), torch.zeros(2)
    graph = capture()
    x.fill_(5.0)
    graph.replay()
    assert out.tolist() == [5.0, 5.0]


def test_a_graph_does_not_keep_what_its_work_has_let_go() -> None:
    held, out = [torch.ones(3)], torch.zeros(3)
    graph = TapeGraph.of(lambda: (out.copy_(held[0] * 2), None)[1])
    graph.replay()
    held[0] = torch.ones(3)
    with pytest.raises(RuntimeError, match="memory that was freed"):
        graph.replay()
