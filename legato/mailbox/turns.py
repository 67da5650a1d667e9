"""Who waits for room, in order.

A turn is *granted* when room comes free, and its sender then enters the message itself.
Handing the message over at the moment of the grant was rejected: a sender cancelled
between the grant and its wake-up could no longer take the message back, so a retry
would send it twice.
"""

from collections import deque
from typing import Generic, TypeVar

W = TypeVar("W")


class Turns(Generic[W]):
    """A queue of turns; no I/O, no wake-ups: what is returned is to be woken."""

    __slots__ = ("granted", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[W] = deque()
        self.granted = 0

    @property
    def pending(self) -> int:
        """Turns granted or not, whose messages have not entered yet."""
        return self.granted + len(self.waiting)

    def join(self, turn: W) -> None:
        """Queue a turn."""
        self.waiting.append(turn)

    def grant(self, room: int) -> list[W]:
        """Grant as many turns as there is room for, beyond those granted before."""
        woken: list[W] = []
        while self.waiting and self.granted < room:
            woken.append(self.waiting.popleft())
            self.granted += 1
        return woken

    def enter(self) -> None:
        """Use up one granted turn."""
        self.granted -= 1

    def leave(self, turn: W) -> None:
        """Give a turn up, granted or not; the caller grants what this frees."""
        try:
            self.waiting.remove(turn)
        except ValueError:
            self.granted -= 1

    def clear(self) -> list[W]:
        """Empty the queue: the mailbox is gone, and every turn must learn it."""
        woken = list(self.waiting)
        self.waiting.clear()
        self.granted = 0
        return woken
