import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.attention.paged import group_rows


@settings(max_examples=40, derandomize=True)
@given(st.lists(st.integers(1, 500), max_size=64), st.integers(1, 2000))
def test_groups_hold_every_row_once_within_their_bound(
    num_pages: list[int], most_pages: int
) -> None:
    pages = np.array(num_pages, np.int64)
    groups = group_rows(pages, most_pages)
    rows = [int(row) for group in groups for row in group]
    assert sorted(rows) == list(range(len(pages)))
    for group in groups:
        assert len(group) == 1 or len(group) * pages[group].max() <= most_pages
        assert pages[group].min() * 2 >= pages[group].max() - 8


def test_rows_of_one_length_are_one_group_in_order() -> None:
    groups = group_rows(np.full(8, 5), 1000)
    assert [group.tolist() for group in groups] == [list(range(8))]
