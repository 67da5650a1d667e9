from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from legato.gpu.native.arena import CHUNK, LARGE_PAGE, Arena, map_pages


def test_memory_is_zeroed_apart_and_begins_at_a_line() -> None:
    arena = Arena()
    parts = [arena.take(size) for size in (1, 63, 64, 65, CHUNK + 1, 1000)]
    for number, part in enumerate(parts, 1):
        assert part.data_ptr() % 64 == 0
        assert not part.any()
        part.fill_(number)
    for number, part in enumerate(parts, 1):
        assert (part == number).all()


def test_threads_get_memory_of_their_own() -> None:
    arena = Arena()
    with ThreadPoolExecutor(8) as threads:
        parts = list(threads.map(arena.take, [4096] * 200))
    starts = sorted(part.data_ptr() for part in parts)
    assert all(b - a >= 4096 for a, b in pairwise(starts))


def test_maps_begin_at_a_large_page() -> None:
    mapped = map_pages(100)
    assert (len(mapped), mapped.data_ptr() % LARGE_PAGE) == (100, 0)
