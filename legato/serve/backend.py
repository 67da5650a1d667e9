"""What the front end needs of an engine. ``legato.Engine`` is one."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from ..actors.scheduling.batching import Batching
from ..protocol.openai.calls import CallParser
from ..protocol.requests import Delta, Prompt
from ..protocol.sampling import SamplingParams


class AnswerStream(Protocol):
    """One answer, as it comes; lagging readers get deltas merged."""

    def cancel(self) -> None:
        """End it early; the last delta then says ``cancelled``. Idempotent."""
        ...

    def close(self) -> None:
        """Let go of it; nothing more can be read. Idempotent."""
        ...

    def limit(self, credit: int) -> None:
        """Give at most so many tokens, and more as ``grant`` allows them."""
        ...

    def grant(self, tokens: int) -> None:
        """Allow more tokens."""
        ...

    @property
    def is_starved(self) -> bool:
        """Whether all that was granted has been read, and more could come."""
        ...

    def amend(
        self, *, max_tokens: int | None = None, priority: int | None = None
    ) -> None:
        """Change limits under way.

        Raises:
            InvalidRequest: A value out of range.
        """
        ...

    def __aiter__(self) -> "AnswerStream":
        """Itself."""
        ...

    async def __anext__(self) -> Delta:
        """Wait for the next delta.

        Raises:
            LegatoError: The answer failed.
        """
        ...


@runtime_checkable
class ListeningStream(Protocol):
    """An answer that can be read without a task's turn for every token."""

    @property
    def ended(self) -> bool:
        """The terminal event has come; what is not taken yet can still be taken."""
        ...

    def take(self) -> Delta | None:
        """Take what is new, without waiting; None if nothing is.

        Raises:
            LegatoError: The answer failed; after all that came before.
        """
        ...

    def listen(self, on_news: Callable[[], None] | None) -> None:
        """Have this called, at most once a turn, when something is new."""
        ...


class Backend(Protocol):
    """An engine, open or opening."""

    @property
    def name(self) -> str:
        """The model's public name."""
        ...

    @property
    def state(self) -> str:
        """Where it is in its life.

        ``starting``, ``ready``, ``stalled``, ``draining``, ``failed`` or ``closed``.
        """
        ...

    @property
    def failure(self) -> str:
        """Why it failed or is stalled, or ""."""
        ...

    @property
    def max_context(self) -> int:
        """Most positions of a sequence."""
        ...

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        tenant: str = "",
        ttft_deadline_s: float = 0.0,
        total_deadline_s: float = 0.0,
    ) -> AbstractAsyncContextManager[AnswerStream]:
        """Open an answer; leaving the context lets go of it.

        Raises:
            LegatoError: On entry: the request cannot be taken.
        """
        ...

    def set_batching(self, batching: Batching) -> None:
        """Change the batching strategy; running sequences are not touched."""
        ...

    async def wait_idle(self) -> None:
        """Wait until nothing runs; ``stats`` is then exact."""
        ...

    def default_params(self) -> Mapping[str, float]:
        """Sampling the model's makers recommend."""
        ...

    @property
    def vocab_size(self) -> int:
        """Token ids are below this."""
        ...

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        """Render and encode a prompt; blocks for the time of it.

        Raises:
            InvalidRequest: It cannot be encoded.
        """
        ...

    def decode(self, ids: tuple[int, ...]) -> str:
        """The text of token ids, special tokens hidden."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes behind a token id."""
        ...

    def tool_parser(self) -> CallParser:
        """Make a parser of one answer's calls."""
        ...

    def metrics_text(self) -> bytes:
        """The engine's metrics, in Prometheus' text format."""
        ...

    def stats(self) -> object:
        """A snapshot of everything, for ``msgspec`` to encode."""
        ...

    async def trace(self, duration_s: float) -> bytes:
        """Record what every actor does for so long; a trace as JSON.

        Raises:
            Overloaded: Another trace is being recorded.
        """
        ...
