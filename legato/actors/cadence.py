"""When a stream's tokens come: its first one, and the gaps between the later ones.

Owned by one stream, in the front end's loop.
"""

from .backlog import Wait
from .observer import StreamObserver
from .stages import Stages


class Cadence:
    """Measures one stream.

    Args:
        stages: Where the first token is marked.
        wait: Over with the first token.
        observer: Hears of first token and gaps.
    """

    __slots__ = ("_last_s", "_observer", "_stages", "_wait")

    def __init__(self, stages: Stages, wait: Wait, observer: StreamObserver) -> None:
        self._stages = stages
        self._wait = wait
        self._observer = observer
        self._last_s = 0.0

    def note(self, num_tokens: int, now_s: float) -> None:
        """So many tokens came together."""
        if self._last_s:
            gap_s = (now_s - self._last_s) / num_tokens
            self._observer.token_gap(gap_s, num_tokens)
        else:
            self._wait.end()
            self._stages.first_token_s = now_s
            self._observer.first_token(now_s - self._stages.created_s)
            if num_tokens > 1:
                # What comes merged with the first token comes at once.
                self._observer.token_gap(0.0, num_tokens - 1)
        self._last_s = now_s
