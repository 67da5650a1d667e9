"""An answer on its way into an outbox, without a task's turn for every token.

To wake a task costs about as much as to send a frame. While the client keeps up, a
delta is taken, rendered and sent within the engine's own turn; the task sleeps, and
works only when something has to wait, or at the end.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ..protocol.requests import Delta
from .backend import AnswerStream, ListeningStream

Render = Callable[[Delta], list[str]]


class FrameSink(Protocol):
    """Where frames go."""

    async def put(self, frames: list[str]) -> None:
        """Take frames, waiting for room."""
        ...

    def send_now(self, frames: Sequence[str]) -> tuple[str, ...]:
        """Take as many frames as it can at once; return the rest."""
        ...


async def pump(stream: AnswerStream, render: Render, outbox: FrameSink) -> None:
    """Put every delta of an answer, as frames, up to its last.

    Args:
        stream: The answer.
        render: Makes frames of a delta; maybe none.
        outbox: Takes them. While it is full nothing is taken, and deltas merge.

    Raises:
        LegatoError: The answer failed.
        Exception: Whatever ``render`` raises.
    """
    if isinstance(stream, ListeningStream):
        await Pump(stream, render, outbox).run()
        return
    async for delta in stream:
        await outbox.put(render(delta))


class Pump:
    """One answer being put.

    Args:
        stream: The answer.
        render: Makes frames of a delta; maybe none.
        outbox: Takes them.
    """

    def __init__(
        self, stream: ListeningStream, render: Render, outbox: FrameSink
    ) -> None:
        self._stream = stream
        self._render = render
        self._outbox = outbox
        self._sleeper: asyncio.Future[None] | None = None
        self._rest: tuple[str, ...] = ()
        self._error: Exception | None = None

    async def run(self) -> None:
        """Put all of it; cancelled, what was not put is dropped.

        Raises:
            Exception: As ``pump`` does.
        """
        stream = self._stream
        stream.listen(self._hear)
        try:
            while (delta := stream.take()) is not None or not stream.ended:
                if delta is not None:
                    await self._outbox.put(self._render(delta))
                else:
                    await self._sleep()
        finally:
            stream.listen(None)

    async def _sleep(self) -> None:
        """Let what comes be sent as it comes, until that does not do any more."""
        self._sleeper = asyncio.get_running_loop().create_future()
        try:
            await self._sleeper
        finally:
            self._sleeper = None
        if self._error is not None:
            raise self._error
        if self._rest:
            rest, self._rest = self._rest, ()
            await self._outbox.put(list(rest))

    def _hear(self) -> None:
        sleeper = self._sleeper
        if sleeper is None or sleeper.done():
            return  # the task is at work, and looks for itself
        try:
            delta = self._stream.take()
            if delta is not None:
                self._rest = self._outbox.send_now(self._render(delta))
        except Exception as error:
            self._error = error
        if self._rest or self._error is not None or self._stream.ended:
            sleeper.set_result(None)
