"""Stop strings in a stream of text.

Knows characters only. A matcher is owned by its stream alone.
"""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Node:
    """One prefix of a stop string, a state of the automaton.

    Args:
        depth: Its length in characters.
        matched: Length of the longest stop string that ends here; 0 is none.
        children: Next states, by character.
        fail: The longest proper suffix that is a prefix too; None at the root.
    """

    depth: int = 0
    matched: int = 0
    children: dict[str, "Node"] = field(default_factory=dict[str, "Node"])
    fail: "Node | None" = None


class StopMatcher:
    """Find the first stop string, and hold back only what may still become one.

    The match that completes first wins; of several that complete at the same
    character, the one that starts earliest. So the answer does not depend on how the
    text was cut into pieces. The automaton is Aho and Corasick's (1975): constant time
    a character, however many stop strings there are and however they overlap.

    Args:
        stops: Not empty strings; none at all lets everything pass.
        include_stop: Release the stop string with the text before it.
    """

    __slots__ = ("_firsts", "_held", "_include_stop", "_root", "_state", "stopped")

    def __init__(self, stops: tuple[str, ...], include_stop: bool) -> None:
        self.stopped = False
        self._include_stop = include_stop
        self._held = ""
        self._firsts = frozenset(stop[0] for stop in stops)
        self._root = self._state = automaton(stops)

    @property
    def held(self) -> int:
        """Characters held back."""
        return len(self._held)

    def feed(self, text: str) -> str:
        """Take more text and return what can no longer belong to a stop string.

        After a match this and every later call leaves nothing waiting: the text is cut
        at the match, ``stopped`` is set, and what follows is dropped.
        """
        if self.stopped:
            return ""
        if self._state is self._root and self._firsts.isdisjoint(text):
            return text
        end = self._scan(text)
        whole = self._held + text
        if self.stopped:
            cut = len(self._held) + end
            cut -= 0 if self._include_stop else self._state.matched
            self._held = ""
        elif self._include_stop:
            # A stop string that is to stay in the text has nothing to hide.
            return text
        else:
            cut = len(whole) - self._state.depth
            self._held = whole[cut:]
        return whole[:cut]

    def _scan(self, text: str) -> int:
        """Run the automaton; return the characters read, to the match's end if any."""
        root, state = self._root, self._state
        for index, character in enumerate(text):
            following = state.children.get(character)
            while following is None and state.fail is not None:
                state = state.fail
                following = state.children.get(character)
            state = following or root
            if state.matched:
                self._state = state
                self.stopped = True
                return index + 1
        self._state = state
        return len(text)

    def flush(self) -> str:
        """Return what is held, at the end: it did not become a stop string."""
        held, self._held = self._held, ""
        self._state = self._root
        return held


def automaton(stops: tuple[str, ...]) -> Node:
    """Build the automaton of all stop strings and return its root."""
    root = Node()
    for stop in stops:
        node = root
        for character in stop:
            node = node.children.setdefault(character, Node(node.depth + 1))
        node.matched = node.depth
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for character, child in node.children.items():
            suffix = node.fail
            while suffix is not None and character not in suffix.children:
                suffix = suffix.fail
            child.fail = suffix.children[character] if suffix else root
            child.matched = child.matched or child.fail.matched
            waiting.append(child)
    return root
