import pytest

from legato.gpu.cuda.graphs import decode_sizes, fitting, sampling_sizes


@pytest.mark.parametrize(
    ("most", "decodes", "samplings"),
    [
        (1, (1,), (1,)),
        (3, (1, 2, 3), (1, 2, 3)),
        (8, (1, 2, 4, 8), (1, 2, 4, 8)),
        (27, (1, 2, 4, 8, 16, 24, 27), (1, 2, 4, 8, 16, 27)),
        (32, (1, 2, 4, 8, 16, 24, 32), (1, 2, 4, 8, 16, 32)),
    ],
)
def test_sizes_end_with_the_largest(
    most: int, decodes: tuple[int, ...], samplings: tuple[int, ...]
) -> None:
    assert decode_sizes(most) == decodes
    assert sampling_sizes(most) == samplings


@pytest.mark.parametrize(("count", "size"), [(1, 1), (3, 4), (4, 4), (9, 16), (27, 27)])
def test_the_smallest_size_that_holds_them_is_taken(count: int, size: int) -> None:
    assert fitting(decode_sizes(27), count) == size
