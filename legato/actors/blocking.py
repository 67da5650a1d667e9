"""Work that must come to its end, whoever is cancelled meanwhile."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work however often this task is cancelled; then let it be cancelled."""
    return await _finished(asyncio.ensure_future(work))


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread of its own, which is gone afterwards.

    Cancelling waits for the work to end: it cannot be interrupted, and whoever cleans
    up behind it must not run beside it. The loop turns meanwhile.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, result)

    thread = threading.Thread(target=run, name="legato-work", daemon=True)
    thread.start()
    try:
        return await _finished(done)
    finally:
        thread.join()  # it has said its last word


async def _finished(future: "asyncio.Future[T]") -> T:
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            # The shield keeps anyio's scopes from cancelling again at every turn of
            # the loop; asyncio's own cancellations come through, and are kept.
            with anyio.CancelScope(shield=True):
                await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not future.cancelled():
            future.exception()  # retrieved; the cancellation goes before it
        raise cancelled
    return future.result()
