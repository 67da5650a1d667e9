"""The supervisor: runs actors, restarts one that fails, and escalates at the end.

One for one: an actor that fails is started again alone, since each keeps its state in
what it owns and in its inbox, not in its task. Past the limit the failure is final and
goes up with its cause. Actors end in the reverse order of their starting.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ..protocol.errors import EngineFailed
from .restarts import RestartLimit

log = logging.getLogger("legato.supervisor")

Run = Callable[[], Awaitable[None]]


class Supervisor:
    """Keeps a few actors running in one loop.

    Args:
        limit: How often any of them may be restarted.
    """

    def __init__(self, limit: RestartLimit) -> None:
        self._limit = limit
        self._tasks: list[asyncio.Task[None]] = []
        self._failed: asyncio.Future[None] | None = None

    def start(self, name: str, run: Run) -> None:
        """Start an actor: ``run`` works until it is cancelled."""
        task = asyncio.get_running_loop().create_task(
            self._keep(name, run), name=f"legato-{name}"
        )
        self._tasks.append(task)

    async def wait(self) -> None:
        """Wait until an actor has failed for good.

        Raises:
            EngineFailed: With the actor's error as its cause.
        """
        self._failed = self._failed or asyncio.get_running_loop().create_future()
        await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Cancel every actor, the last started first, and wait for each."""
        while self._tasks:
            task = self._tasks.pop()
            task.cancel()
            await asyncio.wait([task])
        failed = self._failed
        if failed is not None and not failed.cancel() and not failed.cancelled():
            failed.exception()  # retrieved, even if nobody waited for it

    async def _keep(self, name: str, run: Run) -> None:
        while True:
            try:
                await run()
                return
            except Exception as error:
                if self._limit.allow(time.perf_counter()):
                    log.exception("actor %s failed and is restarted", name)
                    continue
                self._escalate(name, error)
                return

    def _escalate(self, name: str, error: Exception) -> None:
        log.error("actor %s failed too often", name, exc_info=error)
        failed = EngineFailed(f"actor {name!r}: {type(error).__name__}: {error}")
        failed.__cause__ = error
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        if not self._failed.done():
            self._failed.set_exception(failed)
