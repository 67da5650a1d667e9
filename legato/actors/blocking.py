"""Blocking work off the loop, in a thread that is gone afterwards."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread of its own.

    Cancelling waits for the work to end: it cannot be interrupted, and whoever cleans
    up behind it must not run beside it.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "legato-work") as thread:
        future = loop.run_in_executor(thread, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise
