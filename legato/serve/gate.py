"""The way in to the engine, and the count of those inside.

Closing the gate refuses newcomers and lets those inside finish: that is a drain.
Owned by the application.
"""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from ..protocol.errors import EngineClosed, Overloaded
from .backend import Backend


class Gate:
    """Counts answers under way.

    Args:
        engine: Whose state decides who may come in.
        max_per_tenant: Answers under way for one tenant with a key; 0: no limit.
    """

    def __init__(self, engine: Backend, max_per_tenant: int = 0) -> None:
        self._engine = engine
        self._max_per_tenant = max_per_tenant
        self._by_tenant: Counter[str] = Counter()
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
    def is_closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._draining

    @property
    def inside(self) -> int:
        """Answers under way."""
        return self._inside

    def close(self) -> None:
        """Let nobody in any more."""
        self._draining = True

    @contextmanager
    def admit(self, tenant: str = "") -> Generator[None]:
        """Count one answer in, and out at the end of the block.

        Args:
            tenant: Whose key it came with, if it counts as one of that key's.

        Raises:
            EngineClosed: The server is shutting down, or not ready yet.
            Overloaded: Too many of this tenant are inside.
        """
        if self._draining:
            raise EngineClosed("the server is shutting down")
        if self._engine.state == "starting":
            raise EngineClosed("the model is still loading")
        counted = tenant if self._max_per_tenant else ""
        if counted and self._by_tenant[counted] >= self._max_per_tenant:
            what = f"{self._max_per_tenant} requests of this API key are under way"
            raise Overloaded(f"{what}, the most there may be", retry_after_s=1.0)
        self._by_tenant[counted] += 1
        try:
            with self.hold():
                yield
        finally:
            self._by_tenant[counted] -= 1
            if not self._by_tenant[counted]:
                del self._by_tenant[counted]

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep a drain waiting: what was answered is still on its way to its client."""
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
