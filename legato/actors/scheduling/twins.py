"""Twins: sequences that wait for another to compute the prompt they share.

A running sequence *promises* the next page of its prompt. A starting one whose cached
part ends exactly where a promise begins follows the promiser, and starts once their
common part is in the prefix tree. So ``n`` answers to one prompt compute it once.
"""

from .prefix import Match, Node
from .sequence import Home, Sequence

Promise = tuple[Node, tuple[int, ...]]
"""The place in the tree and the tokens of the page that will be there."""


class Twins:
    """Promises and those who wait for them.

    Args:
        page_size: Tokens in a page.
    """

    def __init__(self, page_size: int) -> None:
        self._size = page_size
        self._promises: dict[Promise, Sequence] = {}
        self._promised: dict[Sequence, Promise] = {}
        self._followers: dict[Sequence, list[tuple[int, Sequence]]] = {}

    def promise(self, sequence: Sequence) -> None:
        """Announce the next page of a sequence's known tokens, if it is a full one."""
        start = sequence.published * self._size
        if sequence.node is None or start + self._size > len(sequence.tokens):
            return
        page = (sequence.node, tuple(sequence.tokens[start : start + self._size]))
        if self._promises.setdefault(page, sequence) is sequence:
            self._promised[sequence] = page

    def advance(self, sequence: Sequence) -> list[Sequence]:
        """Move a promise on after a publication; say who need not wait any more."""
        if sequence not in self._promised:
            return []
        del self._promises[self._promised.pop(sequence)]
        self.promise(sequence)
        if sequence not in self._promised:
            return self.leave(sequence)
        waiting = self._followers.get(sequence, [])
        free = [other for target, other in waiting if target <= sequence.done]
        if free:
            self._followers[sequence] = [w for w in waiting if w[0] > sequence.done]
        return [other for other in free if other.home is Home.FOLLOWING]

    def leave(self, sequence: Sequence) -> list[Sequence]:
        """Withdraw a sequence's promise; say who waited for it."""
        promise = self._promised.pop(sequence, None)
        if promise is not None:
            del self._promises[promise]
        followers = self._followers.pop(sequence, [])
        return [other for _, other in followers if other.home is Home.FOLLOWING]

    def find(self, sequence: Sequence, match: Match) -> Sequence | None:
        """Say whom a sequence should follow, or None.

        A less urgent promiser is not followed: it might be made to wait itself.
        """
        start = len(match.pages) * self._size
        if start + self._size > len(sequence.tokens):
            return None
        page = tuple(sequence.tokens[start : start + self._size])
        twin = self._promises.get((match.node, page))
        if twin is None or twin.priority > sequence.priority:
            return None
        return twin

    def follow(self, sequence: Sequence, twin: Sequence, match: Match) -> None:
        """Remember that a sequence waits for all it shares with its twin."""
        size, ours, theirs = self._size, sequence.tokens, twin.tokens
        shared = (len(match.pages) + 1) * size
        limit = min(len(ours) - 1, len(theirs))
        while ours[shared : shared + size] == theirs[shared : shared + size]:
            shared += size
            if shared >= limit:
                break
        while shared < limit and ours[shared] == theirs[shared]:
            shared += 1
        self._followers.setdefault(twin, []).append((min(shared, limit), sequence))

    def clear(self) -> None:
        """Forget all promises; nobody follows anybody."""
        self._promises.clear()
        self._promised.clear()
        self._followers.clear()
