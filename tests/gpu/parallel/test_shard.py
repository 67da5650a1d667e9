from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from msgspec.structs import replace

from legato.gpu import assembly
from legato.gpu.checkpoint import ModelConfig
from legato.gpu.checkpoint.parameters import expected_parameters
from legato.gpu.memory import size_pool
from legato.gpu.parallel.assembly import rank_device
from legato.gpu.parallel.shard import Shard, check_divides
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import InvalidSetting

CPU = torch.device("cpu")


def shards(config: ModelConfig, size: int) -> list[Shard]:
    groups = (SimpleNamespace(rank=rank, size=size) for rank in range(size))
    return [Shard(config, cast(Any, group)) for group in groups]


def test_without_a_group_a_shard_is_the_whole(tiny_config: ModelConfig) -> None:
    shard = Shard(tiny_config)
    assert shard.config == tiny_config
    assert not any(map(shard.part, expected_parameters(tiny_config)))


@pytest.mark.parametrize("size", [2, 4])
def test_every_number_of_a_split_matrix_is_on_one_rank(
    tiny_config: ModelConfig, size: int
) -> None:
    config = replace(tiny_config, num_kv_heads=4, vocab_size=95, qkv_bias=True)
    for name, shape in expected_parameters(config).items():
        parts = [shard.part(name) for shard in shards(config, size)]
        if None in parts:
            assert parts == [None] * size
            assert "norm" in name
            continue
        counted = torch.zeros(shape)
        for part in parts:
            assert part is not None
            counted[part.slices] += 1
        assert counted.eq(1).all()


def test_a_rank_has_whole_heads_and_their_keys(tiny_config: ModelConfig) -> None:
    first, second = shards(tiny_config, 2)
    config = second.config
    assert (config.num_heads, config.num_kv_heads, config.ffn) == (2, 1, 48)
    assert (config.hidden, config.head_dim, config.vocab_size) == (64, 16, 96)
    name = "model.layers.0.self_attn.{}_proj.weight"
    assert second.part(name.format("q")) == (0, 32, 64)
    assert second.part(name.format("k")) == (0, 16, 32)
    assert second.part(name.format("o")) == (1, 32, 64)
    assert first.part(name.format("o")) == (1, 0, 32)


@pytest.mark.parametrize(
    ("kv_heads", "ffn", "size", "told"),
    [
        (3, 1536, 2, "3 key and value heads and MLP of 1536 .* choose 1 or 3"),
        (8, 14336, 3, "choose 1 or 2 or 4 or 8"),
        (8, 100, 8, "choose 1 or 2 or 4"),
    ],
)
def test_a_model_that_does_not_divide_is_refused_with_what_would_work(
    tiny_config: ModelConfig, kv_heads: int, ffn: int, size: int, told: str
) -> None:
    config = replace(tiny_config, num_heads=24, num_kv_heads=kv_heads, ffn=ffn)
    with pytest.raises(InvalidSetting, match=told):
        check_divides(config, size)


def test_packed_weights_are_refused_by_name() -> None:
    with pytest.raises(InvalidSetting, match="int8 runs on one rank alone"):
        RunnerSettings(dtype="int8", tensor_parallel=2)


def test_more_ranks_than_cards_are_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InvalidSetting, match="is 4, but torch sees 2 CUDA devices"):
        rank_device("auto", 0, 4)
    assert rank_device("cuda", 1, 2) == torch.device("cuda", 1)
    assert rank_device("cpu", 3, 4) == CPU


def test_ranks_on_a_cpu_share_its_memory() -> None:
    sizes = [
        size_pool(
            kv_bytes=0,
            page_bytes=1 << 20,
            page_size=16,
            num_slots=1 << 20,
            max_context=1 << 20,
            weight_bytes=0,
            device=CPU,
            sharers=sharers,
        ).num_pages
        for sharers in (1, 4)
    ]
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize(
    ("asked", "set_before", "sharers", "set_after"),
    [
        (0, 5, 1, 5),
        (3, 5, 1, 3),
        (8, 5, 2, 4),
        (1, 5, 2, 1),
        (0, 8, 2, 4),
        (0, 1, 2, 1),
    ],
)
def test_ranks_on_a_cpu_share_its_cores(
    monkeypatch: pytest.MonkeyPatch,
    asked: int,
    set_before: int,
    sharers: int,
    set_after: int,
) -> None:
    now = [set_before]
    monkeypatch.setattr(assembly, "usable_cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(
        torch, "set_num_threads", lambda count: now.__setitem__(0, count)
    )
    for _ in range(2):  # a runner that is built again has no fewer
        assembly.choose_threads(asked, sharers)
        assert now[0] == set_after
