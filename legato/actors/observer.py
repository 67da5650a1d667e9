"""What the metrics hear of streams; the engine's metrics are one such observer."""

from typing import Protocol

from ..protocol.requests import FinishReason, Usage
from .stages import Stages


class StreamObserver(Protocol):
    """Hears of what matters to the metrics."""

    def first_token(self, ttft_s: float) -> None:
        """A request's first token came, so long after its creation."""
        ...

    def token_gap(self, itl_s: float, tokens: int, /) -> None:
        """Later tokens came, each so long after the one before."""
        ...

    def ended(self, reason: FinishReason, usage: Usage, stages: Stages) -> None:
        """A request ended."""
        ...
