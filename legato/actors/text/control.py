"""Control tokens as they look when someone writes them out, and how to defuse them."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

# Unicode noncharacters: they mean nothing and hardly occur in real text. Where they do,
# each MARK becomes ESCAPED, so that GUARD is in no content and need not be searched
# for. (A longer mark for each content that holds the last one would let whoever writes
# the content choose its length, and pay nothing for it.)
MARK = "\ufdd0"
ESCAPED = MARK + "\ufdd1"
GUARD = MARK + "\ufdd2"


class ControlTexts:
    """The texts of a vocabulary's control tokens.

    Everything here works by ``str.find``: a regular expression over a megabyte holds
    the interpreter lock for a tenth of a second, a plain search for 0.1 ms.

    Args:
        names: The texts; empty ones are ignored.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(sorted({name for name in names if name}))
        self._beginnings = {
            name[:size] for name in self._names for size in range(1, len(name))
        }
        self._endings = {
            name[size:] for name in self._names for size in range(1, len(name))
        }
        self._longest = max(map(len, self._names), default=0)

    def occurrences(self, text: str) -> list[tuple[int, str]]:
        """Find all occurrences, overlapping ones too, in order; longer ones first."""
        firsts = {name[0] for name in self._names}
        firsts = {first for first in firsts if first in text}
        found: list[tuple[int, str]] = []
        for name in self._names:
            if name[0] not in firsts:
                continue
            start = text.find(name)
            while start >= 0:
                found.append((start, name))
                start = text.find(name, start + 1)
        return sorted(found, key=lambda it: (it[0], -len(it[1])))

    def broken(self, text: str) -> list[str]:
        """Cut a text so that no part holds a control token's whole text.

        One that is a single character cannot be broken.
        """
        places = sorted({start + 1 for start, _ in self.occurrences(text)})
        bounds = [0, *places, len(text)]
        return [text[a:b] for a, b in pairwise(bounds) if a < b]

    def guarded(self, content: str) -> str:
        """Put a guard into each control token's text, and where one may yet arise.

        It may at either end, with what a template or a neighbouring content puts there.
        Nothing is put outside of the white space around, which templates like to trim.
        Any MARK is escaped. At most two characters for each of the content's, and a
        guard for each place: linear, whatever the content holds.
        """
        places = {start + 1 for start, _ in self.occurrences(content)}
        begin = len(content) - len(content.lstrip())
        end = len(content.rstrip())
        for size in range(1, self._longest):
            if content[max(begin, end - size) : end] in self._beginnings:
                places.add(end)
            if content[begin : min(end, begin + size)] in self._endings:
                places.add(begin)
        bounds = [0, *sorted(places), len(content)]
        parts = (content[a:b] for a, b in pairwise(bounds))
        return GUARD.join(part.replace(MARK, ESCAPED) for part in parts)

    def segments(self, text: str) -> Iterator[tuple[str, bool]]:
        """Cut a text into control tokens (True) and what is between (False).

        Of overlapping control tokens the first counts, of two that begin at the same
        place the longer one.
        """
        position = 0
        for start, name in self.occurrences(text):
            if start < position:
                continue
            if start > position:
                yield text[position:start], False
            yield name, True
            position = start + len(name)
        if position < len(text):
            yield text[position:], False


def unguarded(text: str) -> str:
    """Take the guards out of a text; each escaped MARK is itself again."""
    return text.replace(GUARD, "").replace(ESCAPED, MARK)
