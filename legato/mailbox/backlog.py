"""Messages that wait for credit, to cross merged; no I/O.

    sealed [ bytes bytes . . ]   merged messages, encoded once, as long as may be
    parts  [ . . . . . . ]       the next one, not merged yet; the newest joins it

A message's length is bounded by the sum of its parts', each encoded once. Merging and
encoding the whole at each put was rejected: it costs the square of what waits.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

# Most bytes that are merged into one message: encoding, or reading, much more at once
# would hold a loop up. Merging and encoding so many bytes of tokens takes about 1 ms.
MAX_MERGED_BYTES = 256 * 2**10
# Two messages merged may be longer than both: each list in them may need one byte more
# for its length.
GROWTH_BYTES = 16


class Backlog(Generic[T]):
    """Merged messages, in order; its length is their number.

    Args:
        merge: ``merge(older, newer)``; associative, without side effects.
        encode: To bytes.
    """

    def __init__(
        self, merge: Callable[[T, T], T] | None, encode: Callable[[T], bytes]
    ) -> None:
        self._merge = merge
        self._encode = encode
        self._sealed: deque[bytes] = deque()
        self._parts: list[T] = []
        self._size = 0
        self._limit = self._most = 0

    def __len__(self) -> int:
        """Messages that are to cross, as far as is known."""
        return len(self._sealed) + bool(self._parts)

    def begin(self, max_message_bytes: int) -> None:
        """Learn how long a message may be."""
        self._limit = max_message_bytes
        self._most = min(max_message_bytes, MAX_MERGED_BYTES)

    def add(self, item: T, size: int) -> None:
        """Keep a message; it joins the last one if they fit together.

        Args:
            item: Not to be changed from here on.
            size: Of its encoding, in bytes; not over the limit.
        """
        cost = size + GROWTH_BYTES
        if self._parts and self._size + cost > self._most:
            self._shrink(self._most - cost)
        self._parts.append(item)
        self._size += cost

    def pop(self) -> bytes:
        """Take the oldest message, encoded."""
        if not self._sealed:
            self._seal()
        return self._sealed.popleft()

    def _shrink(self, room: int) -> None:
        """Merge the parts; seal them unless much of them proves to be superseded.

        Kept parts leave half the room free, so that before they are encoded again as
        much must be put: the cost stays linear.

        Args:
            room: Most bytes they may keep without being sealed.
        """
        merged = self._merged(self._parts)
        body = self._encode(merged)
        if len(body) <= min(room, self._most // 2):
            self._parts, self._size = [merged], len(body)
        elif len(body) <= self._limit:
            self._sealed.append(body)
            self._parts, self._size = [], 0
        else:
            self._seal()

    def _seal(self) -> None:
        self._sealed.extend(self._bodies(self._parts))
        self._parts, self._size = [], 0

    def _bodies(self, parts: Sequence[T]) -> list[bytes]:
        body = self._encode(self._merged(parts))
        if len(body) <= self._limit or len(parts) == 1:
            return [body]
        # A merge that makes more of two messages than both together had.
        middle = len(parts) // 2
        return self._bodies(parts[:middle]) + self._bodies(parts[middle:])

    def _merged(self, parts: Sequence[T]) -> T:
        """Merge by halves: one after another, the first is copied each time."""
        if len(parts) == 1:
            return parts[0]
        assert self._merge is not None, "only COALESCE holds messages back"
        middle = len(parts) // 2
        return self._merge(self._merged(parts[:middle]), self._merged(parts[middle:]))
