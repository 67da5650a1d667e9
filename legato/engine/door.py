"""The engine's door: who may come in, before any work is done for them.

Counts open streams and measures how fast they end, so that a refusal can say when to
come back. Owned by the engine.
"""

from collections import deque

from ..protocol.errors import EngineClosed, EngineFailed, EngineStalled, Overloaded

WINDOW = 64
MIN_RETRY_S = 0.5
MAX_RETRY_S = 60.0


class Door:
    """Admits up to ``max_requests`` open streams and ``max_waiting_tokens`` of prompts.

    Args:
        max_requests: Streams open at once.
        max_waiting_tokens: Prompts that wait for their first token, in tokens as far
            as their length tells; one prompt alone is always let in.
    """

    def __init__(self, max_requests: int, max_waiting_tokens: int) -> None:
        self._max_requests = max_requests
        self._max_waiting_tokens = max_waiting_tokens
        self._ended_s: deque[float] = deque(maxlen=WINDOW)
        self.state = "starting"
        self.failure = ""

    def check(self, num_open: int, waiting_tokens: int, now_s: float) -> None:
        """Refuse at once what cannot be taken now.

        Raises:
            EngineClosed: Not started, draining or closed.
            EngineFailed: It died; with its cause. Or hangs: ``EngineStalled``.
            Overloaded: As many streams as there may be are open, or as many tokens
                as may wait for their first answer wait.
        """
        self.check_alive()
        if self.state == "stalled":
            raise EngineStalled(self.failure)
        if self.state != "ready":
            raise EngineClosed(f"the engine is {self.state}")
        if num_open >= self._max_requests:
            raise Overloaded(
                f"{num_open} requests are open, the most there may be",
                retry_after_s=self._retry_after_s(now_s),
            )
        if waiting_tokens >= self._max_waiting_tokens:
            raise Overloaded(
                f"prompts of about {waiting_tokens} tokens wait for their first token, "
                f"the most there may be is {self._max_waiting_tokens}",
                retry_after_s=self._retry_after_s(now_s),
            )

    def check_alive(self) -> None:
        """Refuse what only an engine that is not over can do.

        Raises:
            EngineFailed: It died; with its cause.
            EngineClosed: It is closed.
        """
        if self.state == "failed":
            raise EngineFailed(self.failure)
        if self.state == "closed":
            raise EngineClosed("the engine is closed")

    def stall(self, cause: str) -> None:
        """Let nobody in for as long as the core hangs."""
        if self.state == "ready":
            self.state, self.failure = "stalled", cause

    def recover(self) -> None:
        """Let them in again, if it was that which kept them out."""
        if self.state == "stalled":
            self.state, self.failure = "ready", ""

    def note_end(self, now_s: float) -> None:
        """Count an ended request."""
        self._ended_s.append(now_s)

    def _retry_after_s(self, now_s: float) -> float:
        """The mean time between two endings of late, within bounds."""
        if not self._ended_s:
            return 1.0
        span_s = now_s - self._ended_s[0]
        return min(MAX_RETRY_S, max(MIN_RETRY_S, span_s / len(self._ended_s)))
