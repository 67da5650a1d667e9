"""The pool of pages: which are free, which are cached, which are in use.

Knows page numbers and reference counts; not what a page holds (the prefix tree does)
nor who uses it (storage does). A page is in exactly one of three states:

    free      nobody uses it and nobody remembers it
    cached    nobody uses it, the prefix tree remembers it; taken back oldest first
    used      one reference or more

so that free + cached + used = total at every moment.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable


class PagePool:
    """Reference-counted pages with a least-recently-used reserve.

    Args:
        num_pages: Pages in the pool, numbered from 0.
        forget: Called with a cached page that is about to be reused; returns every
            page the prefix tree forgot with it, itself included.
    """

    def __init__(
        self, num_pages: int, forget: Callable[[int], Iterable[int]] = lambda page: ()
    ) -> None:
        self.num_pages = num_pages
        self._forget = forget
        self._free = list(range(num_pages - 1, -1, -1))
        self._references = [0] * num_pages
        self._kept = bytearray(num_pages)
        # An OrderedDict, because taking the oldest of a plain dict walks over the
        # holes that earlier removals left.
        self._cached: OrderedDict[int, None] = OrderedDict()
        self.peak_used = 0

    @property
    def num_free(self) -> int:
        """Pages nobody uses or remembers."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Pages nobody uses, but whose content is remembered."""
        return len(self._cached)

    @property
    def num_used(self) -> int:
        """Pages with a reference."""
        return self.num_pages - len(self._free) - len(self._cached)

    @property
    def available(self) -> int:
        """Pages that ``take`` can give."""
        return len(self._free) + len(self._cached)

    def references(self, page: int) -> int:
        """How many hold the page."""
        return self._references[page]

    def take(self) -> int | None:
        """Give a page with one reference, or None: there is none."""
        if self._free:
            page = self._free.pop()
        elif self._cached:
            page, _ = self._cached.popitem(last=False)
            self._kept[page] = 0
            for other in self._forget(page):
                self.drop(other)
        else:
            return None
        self._references[page] = 1
        self._note_peak()
        return page

    def share(self, page: int) -> None:
        """Add a reference to a page that is used or cached."""
        if self._references[page] == 0:
            del self._cached[page]
            self._note_peak()
        self._references[page] += 1

    def release(self, page: int) -> None:
        """Take a reference away; the last one makes the page cached or free."""
        assert self._references[page] > 0, f"page {page} released once too often"
        self._references[page] -= 1
        if self._references[page] == 0:
            if self._kept[page]:
                self._cached[page] = None
            else:
                self._free.append(page)

    def keep(self, page: int) -> None:
        """Remember a used page's content once nobody uses it."""
        assert self._references[page] > 0, f"page {page} kept while unused"
        self._kept[page] = 1

    def drop(self, page: int) -> None:
        """Remember it no longer; a cached page becomes free."""
        if self._kept[page]:
            self._kept[page] = 0
            if self._references[page] == 0:
                del self._cached[page]
                self._free.append(page)

    def _note_peak(self) -> None:
        used = self.num_pages - len(self._free) - len(self._cached)
        if used > self.peak_used:
            self.peak_used = used
