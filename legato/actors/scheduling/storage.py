"""Storage: the slots and pages that running sequences hold.

Wires the page pool to the prefix tree, and keeps the step fence: what a sequence gives
back while a dispatched step may still touch it stays with that step's flight until it
lands.
"""

from ...protocol.steps import RunnerLimits
from .ledger import Flight, Ledger
from .pages import PagePool
from .prefix import Match, Node, PrefixTree
from .sequence import Sequence


class Storage:
    """Slots, pages, and what the pages hold.

    Args:
        limits: The runner's.
        ledger: Told of who loses its slot while a step may still touch it.
        prefix_cache: Whether computed pages serve later sequences.
    """

    def __init__(
        self, limits: RunnerLimits, ledger: Ledger, *, prefix_cache: bool
    ) -> None:
        self.page_size = limits.page_size
        self._limits = limits
        self._ledger = ledger
        self._caches = prefix_cache
        self.clear()

    def clear(self) -> None:
        """Empty everything: the device is new."""
        self.tree = PrefixTree(self.page_size)
        self.pool = PagePool(self._limits.num_pages, self.tree.forget)
        self._slots = list(range(self._limits.num_slots - 1, -1, -1))

    @property
    def num_free_slots(self) -> int:
        """Slots that ``seat`` can give."""
        return len(self._slots)

    @property
    def available(self) -> int:
        """Pages that can be taken now."""
        return self.pool.available

    def pages_for(self, positions: int) -> int:
        """Pages that so many positions fill."""
        return -(-positions // self.page_size)

    def find(self, sequence: Sequence) -> Match:
        """Look up how much of a sequence is cached; one token stays to be computed.

        So does each position whose logits are still to be looked at.
        """
        if not self._caches:
            return Match(self.tree.root, [])
        most = len(sequence.tokens) - 1
        if sequence.wants_scores:
            most = min(most, sequence.scored)
        return self.tree.match(sequence.tokens, most)

    def num_new(self, tokens: tuple[int, ...]) -> int:
        """How many of a text's tokens are not cached, the last one at least."""
        if not self._caches:
            return len(tokens)
        match = self.tree.match(tokens, len(tokens) - 1)
        return len(tokens) - len(match.pages) * self.page_size - match.tail_tokens

    def num_taken_by(self, match: Match) -> int:
        """Available pages that using a match makes unavailable."""
        taken = sum(not self.pool.references(page) for page in match.pages)
        if match.tail is not None:
            taken += not self.pool.references(match.tail)
        return taken

    def seat(self, sequence: Sequence, match: Match) -> None:
        """Give a sequence a slot, and what the cache has of it."""
        sequence.slot = self._slots.pop()
        sequence.flight = None
        for page in match.pages:
            self.pool.share(page)
        sequence.pages = list(match.pages)
        held = len(match.pages) * self.page_size
        if match.tail is not None:
            self.pool.share(match.tail)
            target = self.pool.take()
            assert target is not None, "a match was seated without room"
            sequence.pages.append(target)
            sequence.copied_from = match.tail
            held += match.tail_tokens
        sequence.room = len(sequence.pages) * self.page_size - held
        sequence.done = sequence.planned = held
        sequence.published = sequence.own_pages_from = len(match.pages)
        sequence.is_computing = True
        if self._caches:
            sequence.node = match.node

    def grow(self, sequence: Sequence, count: int) -> tuple[int, ...]:
        """Append pages to a sequence; ``available`` must hold so many."""
        new: list[int] = []
        for _ in range(count):
            page = self.pool.take()
            assert page is not None, "a sequence grew without room"
            new.append(page)
        sequence.pages += new
        sequence.room += count * self.page_size
        return tuple(new)

    def grow_by_one(self, sequence: Sequence) -> int | None:
        """Append a page to a sequence, or say None: there is none."""
        page = self.pool.take()
        if page is not None:
            sequence.pages.append(page)
            sequence.room += self.page_size
        return page

    def publish(self, sequence: Sequence) -> None:
        """Remember the pages that a sequence has filled since the last time."""
        size = self.page_size
        while sequence.node is not None:
            start = sequence.published * size
            if start + size > sequence.done:
                return
            tokens = tuple(sequence.tokens[start : start + size])
            sequence.node = self._remember(sequence, sequence.node, tokens)
            sequence.published += 1

    def publish_tail(self, sequence: Sequence) -> None:
        """Remember the page that a sequence has filled in part.

        Its writer may go on: whoever matches the page copies what is there now.
        """
        start = sequence.published * self.page_size
        if sequence.node is not None and start < sequence.done:
            tokens = tuple(sequence.tokens[start : sequence.done])
            self._remember(sequence, sequence.node, tokens)

    def _remember(
        self, sequence: Sequence, parent: Node, tokens: tuple[int, ...]
    ) -> Node | None:
        page = sequence.pages[sequence.published]
        if page in self.tree:
            self._forget(page)
        node = self.tree.publish(parent, tokens, page)
        if node is not None and node.page == page:
            self.pool.keep(page)
        return node

    def _forget(self, page: int) -> None:
        for dropped in self.tree.forget(page):
            self.pool.drop(dropped)

    def disown(self, sequence: Sequence) -> None:
        """Forget what a sequence computed: its content is not to be trusted."""
        for page in sequence.pages[sequence.own_pages_from :]:
            if page in self.tree:
                self._forget(page)
        sequence.node = None

    def vacate(self, sequence: Sequence) -> None:
        """Take slot and pages back, behind the step fence."""
        if not sequence.is_computing:
            # Decoding leaves the mark behind; all but the last token are computed.
            sequence.done = len(sequence.tokens) - 1
        if sequence.copied_from is None:  # else its last page was never filled
            self.publish(sequence)
            self.publish_tail(sequence)
        assert sequence.slot is not None, "a sequence without a slot was vacated"
        # Deepest first, so that among the cached a text's end goes before its start.
        pages = sequence.pages[::-1]
        if sequence.copied_from is not None:
            pages.append(sequence.copied_from)
        flight = sequence.flight
        if flight is None or flight.landed:
            self.give_back(pages, [sequence.slot])
        else:
            flight.pages += pages
            flight.slots.append(sequence.slot)
            self._ledger.part(sequence)

    def land(self, flight: Flight) -> None:
        """Free what the flight's fence held."""
        self.give_back(flight.pages, flight.slots)

    def give_back(self, pages: list[int], slots: list[int]) -> None:
        """Free references and slots that no step can touch any more."""
        for page in pages:
            self.pool.release(page)
        self._slots += slots
