"""The answers of a client that are not over, by lane.

A lane sends one request at a time, so that an error without a response is always that
of its first answer. Owned by the client; knows nothing of sockets.
"""

from collections import deque
from collections.abc import Iterator

from .answer import Answer


class Lanes:
    """First in, first out, in each lane."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[Answer]] = {}
        self._by_id: dict[str, Answer] = {}

    def __bool__(self) -> bool:
        """Whether any answer is not over."""
        return bool(self._lanes)

    def heads(self) -> list[Answer]:
        """The first answer of each lane."""
        return [lane[0] for lane in self._lanes.values()]

    def __iter__(self) -> Iterator[Answer]:
        """All answers."""
        return iter([answer for lane in self._lanes.values() for answer in lane])

    def put(self, answer: Answer) -> bool:
        """Queue an answer; True if it is its lane's turn now."""
        lane = self._lanes.setdefault(answer.lane, deque())
        lane.append(answer)
        return len(lane) == 1

    def is_head(self, answer: Answer) -> bool:
        """Whether the server has, or had, its request."""
        lane = self._lanes.get(answer.lane)
        return bool(lane) and lane[0] is answer

    def remove(self, answer: Answer) -> Answer | None:
        """Take out an answer that is over; returns the one whose turn it is now."""
        lane = self._lanes.get(answer.lane)
        if lane is None or answer not in lane:
            return None
        was_head = lane[0] is answer
        lane.remove(answer)
        self._by_id.pop(answer.id, None)
        if not lane:
            del self._lanes[answer.lane]
            return None
        return lane[0] if was_head else None

    def know(self, answer: Answer) -> None:
        """Remember its id, for events that carry no lane."""
        if answer.id:
            self._by_id[answer.id] = answer

    def of(self, stream_id: str | None, response_id: str | None) -> Answer | None:
        """Whose event it is."""
        if response_id in self._by_id:
            return self._by_id[response_id]
        lane = self._lanes.get(stream_id or "")
        return lane[0] if lane else None
