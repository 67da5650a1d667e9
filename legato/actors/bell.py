"""A stream's bell: rung when there is something new, heard by its one reader.

It holds nothing, so that a reader who is cancelled as it rings has lost nothing: what
is new is asked for after it, as often as one likes. Lives in one event loop.
"""

import asyncio
from collections.abc import Callable
from threading import get_ident

from ..protocol.errors import MailboxMisused


class Bell:
    """Wakes a task that waits, or calls a reader that has no task.

    Made in the loop it belongs to.

    Args:
        name: Whose bell it is, for errors.
    """

    __slots__ = ("_listener", "_loop", "_name", "_sleeper", "thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self._sleeper: asyncio.Future[None] | None = None
        self._listener: Callable[[], None] | None = None

    def ring(self) -> None:
        """Wake the task that waits; if none does, call the listener."""
        sleeper = self._sleeper
        if sleeper is not None:
            self._sleeper = None
            if not sleeper.done():
                sleeper.set_result(None)
        elif self._listener is not None:
            self._listener()

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have this called at every ring from now on; None ends it.

        It is called where the bell is rung: it should be quick, and what it raises is
        the ringer's to handle.
        """
        self._listener = listener

    def check(self) -> None:
        """Refuse another loop's thread.

        Raises:
            MailboxMisused: This is not the loop it was made in.
        """
        if get_ident() != self.thread:
            raise MailboxMisused(f"{self._name} belongs to another event loop")

    def heard(self) -> asyncio.Future[None]:
        """Return what is to be awaited for the next ring, at once.

        Only in the bell's own loop; whoever may be elsewhere calls ``check`` first.

        Raises:
            MailboxMisused: Another task waits.
        """
        if self._sleeper is not None and not self._sleeper.done():
            raise MailboxMisused(f"{self._name} has one reader, and a second one waits")
        sleeper = self._sleeper = self._loop.create_future()
        return sleeper
