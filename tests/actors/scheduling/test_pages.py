"""The page pool against a model of its contract."""

import os

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from legato.actors.scheduling.pages import PagePool

SCALE = int(os.environ.get("LEGATO_MACHINE_STEPS", "1"))


def test_every_page_is_free_at_first_and_given_once():
    pool = PagePool(3)
    assert {pool.take(), pool.take(), pool.take()} == {0, 1, 2}
    assert pool.take() is None
    assert pool.num_used == 3


def test_a_kept_page_is_cached_when_its_last_reference_goes():
    pool = PagePool(1)
    page = pool.take()
    assert page is not None
    pool.keep(page)
    pool.share(page)
    pool.release(page)
    assert pool.num_used == 1
    pool.release(page)
    assert (pool.num_free, pool.num_cached) == (0, 1)


def test_the_cached_page_released_first_is_reused_first():
    forgotten: list[int] = []

    def forget(page: int) -> list[int]:
        forgotten.append(page)
        return [page]

    pool = PagePool(3, forget)
    pages = [pool.take() for _ in range(3)]
    for page in (pages[1], pages[0], pages[2]):
        assert page is not None
        pool.keep(page)
        pool.release(page)
    pool.share(pages[1])
    pool.release(pages[1])
    assert [pool.take(), pool.take(), pool.take()] == [pages[0], pages[2], pages[1]]
    assert forgotten == [pages[0], pages[2], pages[1]]


def test_pages_forgotten_with_another_become_free():
    pool = PagePool(2, lambda page: [0, 1])
    for page in (pool.take(), pool.take()):
        assert page is not None
        pool.keep(page)
    pool.release(0)
    pool.release(1)
    assert pool.num_cached == 2
    assert pool.take() == 0
    assert (pool.num_free, pool.num_cached) == (1, 0)


class PoolMachine(RuleBasedStateMachine):
    """Random use; the model is a reference count a page and an ordered cache."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(6, lambda page: [page])
        self.references: dict[int, int] = {}
        self.kept: set[int] = set()
        self.cached: list[int] = []

    @rule()
    def take(self) -> None:
        free = 6 - len(self.references) - len(self.cached)
        page = self.pool.take()
        if free:
            assert page not in self.references
            assert page not in self.cached
        elif self.cached:
            assert page == self.cached.pop(0)
            self.kept.discard(page)
        else:
            assert page is None
            return
        assert page is not None
        self.references[page] = 1

    @precondition(lambda self: self.references or self.cached)
    @rule(pick=strategies.integers(0, 100))
    def share(self, pick: int) -> None:
        pages = [*self.references, *self.cached]
        page = pages[pick % len(pages)]
        self.pool.share(page)
        if page in self.cached:
            self.cached.remove(page)
        self.references[page] = self.references.get(page, 0) + 1

    @precondition(lambda self: self.references)
    @rule(pick=strategies.integers(0, 100))
    def release(self, pick: int) -> None:
        page = list(self.references)[pick % len(self.references)]
        self.pool.release(page)
        self.references[page] -= 1
        if not self.references[page]:
            del self.references[page]
            if page in self.kept:
                self.cached.append(page)

    @precondition(lambda self: self.references)
    @rule(pick=strategies.integers(0, 100))
    def keep(self, pick: int) -> None:
        page = list(self.references)[pick % len(self.references)]
        self.pool.keep(page)
        self.kept.add(page)

    @rule(page=strategies.integers(0, 5))
    def drop(self, page: int) -> None:
        self.pool.drop(page)
        self.kept.discard(page)
        if page in self.cached:
            self.cached.remove(page)

    @invariant()
    def every_page_is_in_one_state(self) -> None:
        pool = self.pool
        assert pool.num_used == len(self.references)
        assert pool.num_cached == len(self.cached)
        assert pool.num_free + pool.num_cached + pool.num_used == 6
        for page in range(6):
            assert pool.references(page) == self.references.get(page, 0)


PoolMachine.TestCase.settings = settings(
    max_examples=10 * SCALE,
    stateful_step_count=20,
    deadline=None,
    derandomize=SCALE == 1,
)
TestPool = PoolMachine.TestCase


def test_the_peak_is_the_most_that_was_ever_used():
    pool = PagePool(4)
    pages = [pool.take() for _ in range(3)]
    for page in pages:
        assert page is not None
        pool.release(page)
    pool.take()
    assert pool.peak_used == 3
