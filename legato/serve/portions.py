"""What one client sent at once, parsed a little at a time.

A read brings up to 256 KiB, which may be tens of thousands of tiny frames or requests:
parsed in one go they would hold up everybody else for the better part of a second. What
waits is bounded by a read, since nothing more is read meanwhile.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

PORTION_BYTES = 4096
# How long one client is served before the others have their turn.
TURN_S = 0.005


class Portions:
    """The bytes of one connection, on their way to its parser.

    Args:
        loop: Gives the others their turn.
        transport: Reads nothing while something waits.
        parse: Takes a portion; False: no more, until ``go_on``.
        resume: Lets the transport read again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        parse: Callable[[bytes], bool],
        resume: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._parse = parse
        self._resume = resume
        self._rest = b""
        self._stopped = False
        self._turn: asyncio.Handle | None = None

    @property
    def waiting(self) -> bool:
        """Whether something read waits to be parsed: nothing is to be read."""
        return bool(self._rest)

    def take(self, data: bytes) -> None:
        """Parse what was read, or let it wait behind what came before."""
        is_next = not (self._rest or self._stopped)
        self._rest += data
        if is_next:
            self._serve()
        if self._rest:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Parse on in the next turn, if something waits."""
        self._stopped = False
        if self._rest and self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def drop(self) -> int:
        """Forget what waits; return how many bytes."""
        rest, self._rest = self._rest, b""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if rest and not self._transport.is_closing():
            self._resume()
        return len(rest)

    def _take_turn(self) -> None:
        self._turn = None
        try:
            self._serve()
        except BaseException:
            self._transport.abort()  # as the loop does where it calls the parser itself
            raise
        if not (self._rest or self._transport.is_closing()):
            self._resume()

    def _serve(self) -> None:
        end_s = perf_counter() + TURN_S
        while self._rest:
            if not self._parse(self._cut()):
                self._stopped = True
                return
            if perf_counter() >= end_s:
                self.go_on()
                return

    def _cut(self) -> bytes:
        portion = self._rest[:PORTION_BYTES]
        self._rest = self._rest[PORTION_BYTES:]
        return portion
