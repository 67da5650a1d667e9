"""A response that outlives who asked for it, and the one who follows it now."""

import asyncio
from collections.abc import Callable

from .job import Job
from .replay import EventLog, Reader


class Run:
    """A job with its log.

    At most one follows it: the answer keeps to that one's pace. Where nobody does, the
    grace period runs.

    Args:
        job: The response.
        log: Its events.
        background: It runs to its end, whoever follows.
        grace_s: How long it waits for a follower.
        on_grace_over: Called then.
    """

    def __init__(
        self,
        job: Job,
        log: EventLog,
        *,
        background: bool,
        grace_s: float,
        on_grace_over: Callable[["Run"], None],
    ) -> None:
        self.job = job
        self.log = log
        self.background = background
        self.is_given_up = False
        self._grace_s = grace_s
        self._on_grace_over = on_grace_over
        self._follower: Reader | None = None
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, after: int) -> Reader:
        """Follow it from an event on; whoever did so before follows no more.

        Raises:
            Refusal: What comes next is not kept any more, or was never sent.
        """
        reader = self.log.read(after, holds=True)
        if self._follower is not None:
            self._follower.close()
        self._follower = reader
        self.stop_waiting()
        return reader

    def leave(self, reader: Reader) -> None:
        """Follow it no more."""
        reader.close()
        if self._follower is reader:
            self._follower = None
            self.wait()

    def wait(self) -> None:
        """Begin the grace period anew, unless somebody follows."""
        self.stop_waiting()
        if self._follower is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace_s, self._on_grace_over, self)

    def stop_waiting(self) -> None:
        """End the grace period."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
