"""Stop strings in a stream of text.

Knows characters only. A matcher is owned by its stream alone.
"""


class StopProgress:
    """How much of one stop string the text's end matches (Knuth, Morris, Pratt 1977).

    The table of borders grows with the progress, so a long stop string that never
    begins costs nothing: sixteen of a thousand characters would take an automaton of
    all of them 100 ms to build, on the loop.
    """

    __slots__ = ("_borders", "matched", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        # For each beginning seen so far, the longest shorter beginning that ends it.
        self._borders: list[int] = []
        self.matched = 0

    def advance(self, character: str) -> bool:
        """Take one more character; say whether the stop string is complete.

        Once complete, no more may be taken.
        """
        stop, borders, matched = self.stop, self._borders, self.matched
        while matched and stop[matched] != character:
            matched = borders[matched - 1]
        if stop[matched] == character:
            matched += 1
            if matched > len(borders):
                self._grow()
        self.matched = matched
        return matched == len(stop)

    def _grow(self) -> None:
        stop, borders = self.stop, self._borders
        size = len(borders)
        border = borders[-1] if size else 0
        while border and stop[border] != stop[size]:
            border = borders[border - 1]
        borders.append(border + 1 if size and stop[border] == stop[size] else 0)


class StopMatcher:
    """Find the first stop string, and hold back only what may still become one.

    The match that completes first wins; of several that complete at the same
    character, the one that starts earliest. So the answer does not depend on how the
    text was cut into pieces.

    Args:
        stops: Not empty strings; none at all lets everything pass.
        include_stop: Release the stop string with the text before it.
    """

    __slots__ = ("_firsts", "_held", "_include_stop", "_progress", "stopped")

    def __init__(self, stops: tuple[str, ...], include_stop: bool) -> None:
        self.stopped = False
        self._include_stop = include_stop
        self._held = ""
        self._firsts = frozenset(stop[0] for stop in stops)
        self._progress = [StopProgress(stop) for stop in stops]

    @property
    def held(self) -> int:
        """Characters held back."""
        return 0 if self._include_stop else len(self._held)

    def feed(self, text: str) -> str:
        """Take more text and return what can no longer belong to a stop string.

        After a match this and every later call leaves nothing waiting: the text is cut
        at the match, ``stopped`` is set, and what follows is dropped.
        """
        if self.stopped:
            return ""
        if not self._held and self._firsts.isdisjoint(text):
            return text
        idle, firsts = not self._held, self._firsts
        for index, character in enumerate(text):
            if idle and character not in firsts:
                continue
            idle, complete = True, 0
            for progress in self._progress:
                if progress.advance(character):
                    complete = max(complete, progress.matched)
                elif progress.matched:
                    idle = False
            if complete:
                self.stopped = True
                return self._cut(text[: index + 1], complete)
        if idle and not self._held:
            return text
        whole = self._held + text
        start = len(whole) - max(it.matched for it in self._progress)
        self._held = whole[start:]
        # A stop string that is to stay in the text has nothing to hide.
        return text if self._include_stop else whole[:start]

    def _cut(self, text: str, matched: int) -> str:
        """Return the last text there is, up to a match at its end."""
        held, self._held = self._held, ""
        return text if self._include_stop else (held + text)[:-matched]

    def flush(self) -> str:
        """Return what is held, at the end: it did not become a stop string."""
        held, self._held = self._held, ""
        self._progress = [StopProgress(it.stop) for it in self._progress]
        return "" if self._include_stop else held
