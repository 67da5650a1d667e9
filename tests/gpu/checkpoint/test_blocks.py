import gguf
import numpy as np
import pytest

from legato.gpu.checkpoint import Blocks, GgufType
from legato.gpu.checkpoint.blocks import SIMPLE, dequantize

FLOATS = (GgufType.F32, GgufType.F16, GgufType.BF16)
QUANTIZED = [kind for kind in GgufType if kind not in FLOATS]


def random_blocks(kind: GgufType, rows: int = 3, blocks: int = 5) -> np.ndarray:
    """Any bytes, with halves that are numbers."""
    random = np.random.default_rng(int(kind))
    stored = random.integers(0, 256, (rows, blocks, kind.block[1]), np.uint8)
    if kind in SIMPLE:
        halves = random.normal(size=(rows, blocks, 2)).astype(np.float16)
        stored[..., :4] = halves.view(np.uint8)
    return stored.reshape(rows, -1)


def test_numbers_and_sizes_of_types_are_those_of_the_gguf_package() -> None:
    for kind in GgufType:
        package = gguf.GGMLQuantizationType(int(kind))
        assert (package.name, gguf.GGML_QUANT_SIZES[package]) == (kind.name, kind.block)


@pytest.mark.parametrize("kind", sorted(SIMPLE))
def test_simple_blocks_are_the_floats_the_gguf_package_makes(kind: GgufType) -> None:
    rows = random_blocks(kind)
    want = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(int(kind)))
    blocks = Blocks(kind, rows)
    assert blocks.shape == want.shape
    np.testing.assert_array_equal(blocks.floats(), want)


@pytest.mark.parametrize("kind", QUANTIZED)
@pytest.mark.parametrize("blocks", [2, 300])
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
def test_blocks_of_every_kind_become_floats(kind: GgufType, blocks: int) -> None:
    rows = random_blocks(kind, 1, blocks)
    want = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(int(kind)))
    np.testing.assert_array_equal(dequantize(memoryview(rows).cast("B"), kind), want[0])
