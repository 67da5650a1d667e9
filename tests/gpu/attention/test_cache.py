import torch

from legato.gpu.attention import KvCache
from legato.gpu.attention.cache import FP8


def small(dtype: torch.dtype = torch.bfloat16) -> KvCache:
    return KvCache(
        num_layers=2,
        num_pages=4,
        page_size=2,
        num_kv_heads=1,
        head_dim=2,
        dtype=dtype,
        device=torch.device("cpu"),
    )


def test_a_cell_is_a_tokens_place_in_its_page() -> None:
    cache = small()
    k = torch.arange(4.0).view(2, 1, 2).bfloat16()
    cache.write(1, torch.tensor([5, 0]), k, -k)
    assert cache.keys[1, 2, 1, 0].tolist() == [0.0, 1.0]
    assert cache.values[1, 0, 0, 0].tolist() == [-2.0, -3.0]
    assert not cache.keys[0].any()


def test_copies_follow_one_another() -> None:
    cache = small()
    cache.keys[:, 0] = 1
    cache.values[:, 0] = 2
    cache.copy([(0, 1), (1, 3)])
    assert cache.keys[:, 3].eq(1).all()
    assert cache.values[:, 3].eq(2).all()
    assert not cache.keys[:, 2].any()


def test_scrubbed_cells_are_zero_in_every_layer() -> None:
    cache = small()
    cache.keys.fill_(float("nan"))
    cache.values.fill_(float("nan"))
    cache.scrub(torch.tensor([2, 3]))
    assert cache.keys[:, 1].eq(0).all()
    assert cache.values[:, 1].eq(0).all()
    assert cache.values[:, 0].isnan().all()


def test_fp8_rounds_what_is_stored_and_never_makes_a_nan() -> None:
    cache = small(FP8)
    k = torch.tensor([[[1e6, -1e6]], [[1.06, 2.0**-9]]])
    cache.write(0, torch.tensor([3, 4]), k, k)
    cells = cache.key_cells[0].float()
    assert cells[[3, 4], 0].tolist() == [[448.0, -448.0], [1.0, 2.0**-9]]
    assert cache.rounded(k).tolist() == cells[[3, 4]].tolist()
    cache.copy([(1, 0)])
    assert cache.keys[0, 0, 1, 0].float().tolist() == [448.0, -448.0]
    cache.scrub(torch.tensor([3]))
    assert not cache.key_cells[:, 3].float().any()
