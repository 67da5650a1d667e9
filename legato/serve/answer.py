"""What a protocol makes of the answers to a request."""

from collections.abc import Sequence
from typing import Protocol

from ..protocol.requests import Completion, Delta, FinishReason, Usage


class Answer(Protocol):
    """How a protocol shapes the answers to a request."""

    def opening(self, index: int) -> bytes:
        """A choice's first chunk, or nothing."""
        ...

    def delta(self, index: int, delta: Delta) -> bytes:
        """A chunk of text, or nothing."""
        ...

    def closing(self, index: int, reason: FinishReason) -> bytes:
        """A choice's last chunk."""
        ...

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last."""
        ...

    def whole(self, answers: Sequence[Completion], usage: Usage) -> bytes:
        """All choices in one piece."""
        ...


def joined(deltas: Sequence[Delta]) -> Completion:
    """The whole of an answer that was read to its end."""
    last = deltas[-1]
    assert last.finish_reason is not None, "only the last delta ends an answer"
    assert last.usage is not None, "and it says what the answer took"
    return Completion(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        finish_reason=last.finish_reason,
        usage=last.usage,
        logprobs=tuple(entry for delta in deltas for entry in delta.logprobs),
        prompt=next((delta.prompt for delta in deltas if delta.prompt), None),
    )
