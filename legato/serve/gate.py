"""The way in to the engine, and the count of those inside.

Closing the gate refuses newcomers and lets those inside finish: that is a drain.
Owned by the application.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from ..protocol.errors import EngineClosed
from .backend import Backend


class Gate:
    """Counts answers under way.

    Args:
        engine: Whose state decides who may come in.
    """

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._draining = False
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def state(self) -> str:
        """The engine's state, or ``draining`` once the gate is closed."""
        if self._draining and self._engine.state == "ready":
            return "draining"
        return self._engine.state

    @property
    def inside(self) -> int:
        """Answers under way."""
        return self._inside

    def close(self) -> None:
        """Let nobody in any more."""
        self._draining = True

    @contextmanager
    def admit(self) -> Generator[None]:
        """Count one answer in, and out at the end of the block.

        Raises:
            EngineClosed: The server is shutting down, or not ready yet.
        """
        if self._draining:
            raise EngineClosed("the server is shutting down")
        if self._engine.state == "starting":
            raise EngineClosed("the model is still loading")
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def emptied(self) -> None:
        """Wait until nobody is inside."""
        await self._empty.wait()
