import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.cuda.filters import keep_top_k, keep_top_p


def some_weights(rows: int, vocab: int, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=random) * 4
    return (logits - logits.amax(1, keepdim=True)).exp()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from([7, 96, 1000]), st.integers(0, 99), st.data())
def test_the_k_heaviest_stay(vocab: int, seed: int, data: st.DataObject) -> None:
    weights = some_weights(3, vocab, seed)
    ks = [data.draw(st.integers(1, vocab)) for _ in range(3)]
    kept = keep_top_k(weights, torch.tensor(ks)[:, None])
    for row, k, got in zip(weights, ks, kept, strict=True):
        wanted = torch.zeros_like(row)
        values, ids = row.topk(k)
        wanted[ids] = values
        assert got.equal(wanted)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from([7, 96, 1000]), st.integers(0, 99), st.data())
def test_the_fewest_that_reach_a_share_stay(
    vocab: int, seed: int, data: st.DataObject
) -> None:
    weights = some_weights(3, vocab, seed)
    shares = [data.draw(st.sampled_from([1e-6, 0.3, 0.9, 0.999])) for _ in range(3)]
    kept = keep_top_p(weights, torch.tensor(shares)[:, None])
    for row, share, got in zip(weights, torch.tensor(shares), kept, strict=True):
        values, ids = row.double().sort(descending=True)
        before = values.cumsum(0) - values
        some = ids[before < row.double().sum() * share]
        wanted = torch.zeros_like(row)
        wanted[some] = row[some]
        assert got.equal(wanted)


def test_a_whole_share_leaves_a_row_as_it_is() -> None:
    weights = some_weights(1, 1000, 0)
    assert keep_top_p(weights, torch.ones(1, 1)).equal(weights)


@pytest.mark.parametrize(("k", "left"), [(1, [2]), (2, [2, 5]), (4, [2, 5, 300, 511])])
def test_of_equals_the_lowest_ids_stay(k: int, left: list[int]) -> None:
    weights = torch.full((1, 512), 0.25)
    weights[0, [2, 5, 300, 511]] = 1.0
    kept = keep_top_k(weights, torch.tensor([[k]]))
    assert kept[0].nonzero()[:, 0].tolist() == left
    share = k / (4 + 508 * 0.25)
    kept = keep_top_p(weights, torch.tensor([[share * 0.999]]))
    assert kept[0].nonzero()[:, 0].tolist() == left


@pytest.mark.parametrize("share", [0.0, -2.0])
def test_the_heaviest_always_stays(share: float) -> None:
    weights = some_weights(1, 96, 3)
    kept = keep_top_p(weights, torch.tensor([[share]]))
    assert kept.nonzero().tolist() == [[0, int(weights.argmax())]]
