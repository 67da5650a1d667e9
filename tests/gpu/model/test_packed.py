import ctypes
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.checkpoint import Blocks, GgufType
from legato.gpu.model.packed import PackedProjection, Packer
from legato.gpu.native import Kernels, build, load_kernels


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    found = load_kernels()
    if not isinstance(found, Kernels):
        pytest.skip(str(found))
    return found


@pytest.fixture(scope="module", params=[1, 3])
def packer(request: pytest.FixtureRequest, kernels: Kernels) -> Packer:
    return Packer(kernels, request.param)


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """What packing keeps of a weight, said in torch."""
    parts = []
    for part in weight.split(32, 1):
        scale = (part.abs().amax(1, keepdim=True) / 127).half().float()
        parts.append(scale * (part / scale.clamp_min(1e-30)).round().clamp(-127, 127))
    return torch.cat(parts, 1)


def of_4_bits(seed: int, outs: int, ins: int) -> torch.Tensor:
    """A matrix as GGUF's Q4_1 makes them: every block has its 0 and its 15."""
    blocks = normal(seed, outs, ins // 32, 32)
    low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    scale = ((high - low) / 15).half().float()
    low = low.half().float()
    q = ((blocks - low) / scale).round().clamp(0, 15)
    q.scatter_(-1, blocks.argmin(-1, keepdim=True), 0)
    q.scatter_(-1, blocks.argmax(-1, keepdim=True), 15)
    return (low + scale * q).view(outs, ins)


def blocks_of(kind: str, seed: int, outs: int, ins: int) -> Blocks:
    quantized = gguf.quants.quantize(
        normal(seed, outs, ins).numpy(), gguf.GGMLQuantizationType[kind]
    )
    return Blocks(GgufType[kind], quantized)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 19),
    outs=st.integers(1, 70),
    ins=st.integers(1, 200),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_rows_of_any_shape_are_projected(
    packer: Packer,
    rows: int,
    outs: int,
    ins: int,
    biased: bool,
    seed: int,
) -> None:
    weight, x = normal(seed, outs, ins), normal(seed + 1, rows, ins)
    bias = normal(seed + 2, outs) if biased else None
    residual = normal(seed + 3, rows, outs)
    projection = packer.pack(weight, bias)
    want = torch.nn.functional.linear(x, rounded(weight), bias)
    close = {"atol": 4e-4 * ins**0.5, "rtol": 1e-4}
    torch.testing.assert_close(projection.apply(x), want, **close)
    torch.testing.assert_close(projection.add(x, residual), want + residual, **close)


@pytest.mark.parametrize("rows", [1, 5, 70])
def test_4_bit_blocks_are_held_exactly_in_4_bits(packer: Packer, rows: int) -> None:
    weight, x = of_4_bits(rows, 64, 160), normal(9, rows, 160)
    projection = packer.pack(weight, None)
    assert projection.num_bytes == 64 * 160 // 2 + 64 * 5 * 4
    torch.testing.assert_close(projection.apply(x), x @ weight.T, atol=2e-3, rtol=1e-4)


def coarsened(weight: torch.Tensor, packer: Packer) -> PackedProjection:
    projection = packer.pack(weight, None)
    projection.coarsen()
    return projection


def in_8_bits(x: torch.Tensor) -> torch.Tensor:
    """What coarse products keep of activations, said in torch."""
    groups = x.view(len(x), -1, 32)
    least, most = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    step = (most - least) / 255
    return (least + step * ((groups - least) / step).round()).view_as(x)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 70])
def test_coarse_activations_have_256_levels_from_least_to_most(
    packer: Packer, rows: int
) -> None:
    # Away from zero, as activations behind a gate are.
    weight, x = of_4_bits(rows, 70, 160), normal(9, rows, 160) + 3
    projection = coarsened(weight, packer)
    assert projection.is_coarse
    want = in_8_bits(x) @ weight.T
    torch.testing.assert_close(projection.apply(x), want, atol=5e-3, rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 4, 70])
def test_what_stands_out_of_coarse_activations_stays_exact(
    packer: Packer, rows: int
) -> None:
    weight, x = of_4_bits(rows, 70, 160), normal(9, rows, 160)
    spikes = torch.zeros_like(x)
    # In some rows and groups, at either side of a byte and of zero.
    spikes[::2, 5], spikes[::3, 63], spikes[-1, 130] = 300.0, -1000.0, 77.0
    x[spikes != 0] = 0
    want = torch.where(spikes != 0, spikes, in_8_bits(x)) @ weight.T
    got = coarsened(weight, packer).apply(x + spikes)
    torch.testing.assert_close(got, want, atol=5e-3, rtol=1e-4)


def test_coarse_sums_at_their_ends_do_not_overflow(packer: Packer) -> None:
    weight = of_4_bits(1, 32, 64)
    ends = torch.tensor([weight.min(), weight.max()])
    for level in (0, 1):
        weight = ends[level].repeat(32, 64).clone()
        weight[:, ::32] = ends[1 - level]  # both ends, so that levels are told apart
        x = torch.ones(2, 64)
        x[:, ::32] = -1
        want = x @ weight.T
        torch.testing.assert_close(
            coarsened(weight, packer).apply(x), want, atol=2e-3, rtol=1e-3
        )


@pytest.mark.parametrize(("make", "ins"), [(normal, 64), (of_4_bits, 64)])
def test_only_weights_of_4_bits_are_coarsened(
    packer: Packer, make: Callable[..., torch.Tensor], ins: int
) -> None:
    assert coarsened(make(2, 40, ins), packer).is_coarse == (make is of_4_bits)
    # A group that is not whole would be filled up with what is not quite zero.
    assert not coarsened(make(2, 40, 64)[:, :40], packer).is_coarse


def test_constant_activations_are_exact_however_coarse(packer: Packer) -> None:
    weight = of_4_bits(4, 40, 64)
    x = torch.tensor([[0.0], [0.7], [-3.0]]).repeat(1, 64)
    got = coarsened(weight, packer).apply(x)
    torch.testing.assert_close(got, x @ weight.T, atol=1e-4, rtol=1e-5)


def test_other_weights_take_a_byte(packer: Packer) -> None:
    assert packer.pack(normal(0, 64, 160), None).num_bytes == 64 * 160 + 64 * 5 * 2


@pytest.mark.parametrize(
    ("make", "coarse"), [(normal, False), (of_4_bits, False), (of_4_bits, True)]
)
def test_a_row_gets_the_same_bits_in_any_company(
    packer: Packer, make: Callable[..., torch.Tensor], coarse: bool
) -> None:
    projection = packer.pack(make(3, 100, 96))
    if coarse:
        projection.coarsen()
    x = normal(4, 150, 96)
    together = projection.apply(x)
    for row in (0, 1, 2, 63, 64, 149):
        assert torch.equal(projection.apply(x[row : row + 1])[0], together[row])


def test_spiky_rows_get_the_same_bits_alone_and_with_any_number_of_threads(
    kernels: Kernels,
) -> None:
    x = normal(4, 70, 576)
    x[normal(5, 70, 576) > 2.3] *= 40
    found: list[torch.Tensor] = []
    for threads in (1, 2, 3):
        projection = coarsened(of_4_bits(3, 100, 576), Packer(kernels, threads))
        found.append(projection.apply(x))
        found.append(torch.cat([projection.apply(row[None]) for row in x]))
    assert all(torch.equal(one, found[0]) for one in found)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("coarse", [False, True])
def test_broken_numbers_stay_broken_in_their_row_alone(
    packer: Packer, broken: float, coarse: bool
) -> None:
    projection, x = packer.pack(of_4_bits(5, 20, 64), None), normal(6, 3, 64)
    if coarse:
        projection.coarsen()
    want = projection.apply(x)
    x[1, 40] = broken
    got = projection.apply(x)
    assert not got[1].isfinite().any()
    assert torch.equal(got[::2], want[::2])


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-31, 1e18, 1e36])
def test_numbers_of_any_size_are_projected(
    packer: Packer, size: float, coarse: bool
) -> None:
    projection, x = packer.pack(of_4_bits(5, 20, 64), None), normal(6, 3, 64)
    if coarse:
        projection.coarsen()
    want = projection.apply(x)
    got = projection.apply(x * size)
    torch.testing.assert_close(got, want * size, atol=max(size * 0.1, 1e-28), rtol=1e-3)


@pytest.mark.slow
def test_a_processor_without_vectors_gets_the_same_numbers(
    packer: Packer, tmp_path: Path
) -> None:
    library = tmp_path / "plain.so"
    command = [build.compiler_command()[0], *build.FLAGS, *build.LOOSE]
    build.compile_to(library, [*command, str(build.SOURCES / "kernels.cpp")])
    plain = Packer(Kernels(ctypes.CDLL(str(library))), 2)
    for weight in (normal(3, 50, 100), of_4_bits(3, 50, 96)):
        x = normal(4, 7, weight.shape[1])
        ours, theirs = packer.pack(weight, None), plain.pack(weight, None)
        torch.testing.assert_close(theirs.apply(x), ours.apply(x), atol=1e-4, rtol=1e-5)
        ours.coarsen()
        theirs.coarsen()
        torch.testing.assert_close(theirs.apply(x), ours.apply(x), atol=1e-4, rtol=1e-5)


def test_zeros_and_constants_are_held_exactly(packer: Packer) -> None:
    weight = torch.full((17, 40), 0.25)
    weight[3] = 0
    x = torch.zeros(2, 40)
    x[1] = 1
    want = torch.zeros(2, 17)
    want[1] = 10
    want[1, 3] = 0
    torch.testing.assert_close(packer.pack(weight, None).apply(x), want)


def test_rows_of_another_width_are_refused(packer: Packer) -> None:
    with pytest.raises(ValueError, match="not 64"):
        packer.pack(normal(5, 20, 64), None).apply(torch.zeros(1, 63))


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_stored_blocks_are_held_exactly(packer: Packer, kind: str) -> None:
    upper, lower = (
        blocks_of(kind, seed, outs, 96) for seed, outs in ((1, 20), (2, 33))
    )
    bias, x = normal(3, 53), normal(4, 5, 96)
    projection = packer.pack_blocks([upper, lower], bias)
    floats = torch.cat([torch.asarray(part.floats()) for part in (upper, lower)])
    torch.testing.assert_close(
        projection.apply(x), x @ floats.T + bias, atol=2e-3, rtol=1e-4
    )
    ids = torch.tensor([0, 52, 19, 20, 20])
    embedding = packer.rows_of(projection)
    assert embedding is not None
    torch.testing.assert_close(embedding.rows(ids), floats[ids], atol=0, rtol=1e-6)


def test_bytes_at_their_ends_do_not_overflow(packer: Packer) -> None:
    blocks = blocks_of("Q8_0", 1, 16, 64)
    for value in (127, -127, -128):
        rows = blocks.rows.copy().reshape(-1, 34)
        rows[:, 2:] = np.int8(value).view(np.uint8)
        extreme = Blocks(blocks.kind, rows.reshape(blocks.rows.shape))
        x = torch.tensor([[1.0], [-1.0]]).repeat(1, 64)
        want = x @ torch.asarray(extreme.floats()).T
        got = packer.pack_blocks([extreme], None).apply(x)
        torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-4)


def test_a_token_outside_the_vocabulary_is_refused(packer: Packer) -> None:
    embedding = packer.rows_of(packer.pack_blocks([blocks_of("Q8_0", 1, 8, 32)], None))
    assert embedding is not None
    for token in (-1, 8):
        with pytest.raises(IndexError, match="outside 0 to 7"):
            embedding.rows(torch.tensor([0, token]))


def test_an_embedding_that_was_rounded_keeps_its_table(packer: Packer) -> None:
    assert packer.rows_of(packer.pack(normal(0, 48, 160), None)) is None
