"""A stream as its reader holds it: an async iterator of deltas.

The generation belongs to the engine, not to the iterator: leaving the ``async with``
block lets go of it at once, wherever it stands.
"""

import asyncio
import weakref
from collections.abc import Callable
from threading import get_ident
from types import TracebackType

from ..actors.open_stream import OpenStream
from ..actors.ration import MAX_CREDIT
from ..actors.streams import Streams
from ..protocol.amend import Amend
from ..protocol.requests import Completion, Delta, FinishReason, Usage
from ..protocol.sampling import whole
from .terms import MAX_PRIORITY


class Stream:
    """One answer, as it comes. One that is dropped unclosed is let go all the same.

    Args:
        opened: The engine's side of it.
        streams: Where it is let go.
    """

    def __init__(self, opened: OpenStream, streams: Streams) -> None:
        self._opened = opened
        self._streams = streams
        # Whatever thread collects it, its loop lets go; and nothing at exit, when there
        # is no loop any more.
        loop = asyncio.get_running_loop()
        self._dropped = weakref.finalize(self, let_go, loop, streams, opened.request)
        self._dropped.atexit = False

    @property
    def request(self) -> int:
        """The engine's number of this request."""
        return self._opened.request

    @property
    def seed(self) -> int:
        """The seed in use: give it again with the same request for the same text."""
        seed = self._opened.generate.params.seed
        assert seed is not None, "drawn at the engine's door"
        return seed

    def cancel(self) -> None:
        """End the answer early; the last delta then says ``cancelled``. Idempotent.

        From another thread: ``loop.call_soon_threadsafe(stream.cancel)``.

        Raises:
            MailboxMisused: It is another loop's, as in all that follows.
        """
        self._opened.bell.check()
        self._streams.cancel(self.request)

    def limit(self, credit: int) -> None:
        """Read at most so many tokens, and more as ``grant`` allows them.

        When they are used up the sequence is paused: it takes no row of any step, and
        its pages may be given to others.

        Raises:
            InvalidRequest: Not a whole number from 0.
        """
        self._opened.bell.check()
        whole(credit, "credit", 0, MAX_CREDIT)
        self._opened.flow.limit(credit)

    def grant(self, tokens: int) -> None:
        """Allow more tokens to be read; it goes on where it was.

        Raises:
            InvalidRequest: Not a whole number from 1.
        """
        self._opened.bell.check()
        whole(tokens, "tokens", 1, MAX_CREDIT)
        self._opened.grant(tokens)

    @property
    def is_starved(self) -> bool:
        """Whether all that was granted has been read, and more could come."""
        return self._opened.is_starved

    def amend(
        self, *, max_tokens: int | None = None, priority: int | None = None
    ) -> None:
        """Change the answer under way; None leaves a term as it is.

        Args:
            max_tokens: Most tokens in all; an answer that has as many ends at once,
                with the reason ``length``. Cut to what the context holds.
            priority: Lower runs earlier.

        Raises:
            InvalidRequest: A value out of range.
        """
        self._opened.bell.check()
        if max_tokens is not None:
            whole(max_tokens, "max_tokens", 1, MAX_CREDIT)
        if priority is not None:
            whole(priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
        self._opened.amend(Amend(self.request, max_tokens, priority))

    def close(self) -> None:
        """Let go of the answer; nothing more can be read. Idempotent."""
        self._opened.bell.check()
        self._dropped.detach()
        self._streams.forget(self.request)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Delta:
        """Wait for the next delta; a reader that lags gets several merged in one.

        Cancelling loses nothing: the next call returns what was due.

        Raises:
            InvalidRequest: The prompt cannot be served; before the first delta.
            Overloaded: The engine has no room; before the first delta.
            DeadlineExceeded: The request's own deadline passed.
            EngineFailed: The engine died and could not go on.
            EngineStalled: Its device hangs; it may go on later.
            EngineClosed: The engine was shut down.
            MailboxMisused: Another task waits for it, or it is another loop's.
        """
        opened = self._opened
        bell = opened.bell
        if get_ident() != bell.thread:
            bell.check()
        while (delta := opened.take()) is None:
            if opened.ended:
                raise opened.failure or StopAsyncIteration
            await bell.heard()
        return delta

    def take(self) -> Delta | None:
        """Take what is new, without waiting; None if nothing is.

        With ``listen`` and ``ended``, for readers that have no task of their own, such
        as the one task of a server that fills many sockets.

        Raises:
            LegatoError: The answer failed; after all that came before. As
                ``__anext__`` does.
        """
        opened = self._opened
        opened.bell.check()
        delta = opened.take()
        if delta is None and opened.failure is not None:
            raise opened.failure
        return delta

    @property
    def ended(self) -> bool:
        """The terminal event has come; what is not taken yet can still be taken."""
        return self._opened.ended

    def listen(self, on_news: Callable[[], None] | None) -> None:
        """Have this called, at most once a turn of the loop, when something is new.

        It is called in the engine's own turn, so it should be quick; an exception from
        it fails this stream. Nothing is called for what came before, and nothing while
        a task waits for the next delta. None ends it.
        """
        self._opened.bell.listen(on_news)

    async def collect(self) -> Completion:
        """Read to the end and return the whole answer.

        Raises:
            LegatoError: As ``__anext__`` does.
        """
        pieces: list[Delta] = [delta async for delta in self]
        last = pieces[-1] if pieces else Delta("")
        return Completion(
            text="".join(delta.text for delta in pieces),
            token_ids=tuple(i for delta in pieces for i in delta.token_ids),
            finish_reason=last.finish_reason or FinishReason.CANCELLED,
            usage=last.usage or Usage(0, 0),
            logprobs=tuple(p for delta in pieces for p in delta.logprobs),
            prompt=next((delta.prompt for delta in pieces if delta.prompt), None),
        )


def let_go(loop: asyncio.AbstractEventLoop, streams: Streams, request: int) -> None:
    """Let go of a stream in its loop, from any thread."""
    try:
        loop.call_soon_threadsafe(streams.forget, request)
    except RuntimeError:
        pass  # the loop is closed, and so is the engine that ran in it


class StreamContext:
    """Opens a stream on entry and lets go of it on exit.

    Args:
        open_stream: Does it; raises what the engine's door raises.
    """

    def __init__(self, open_stream: Callable[[], Stream]) -> None:
        self._open_stream = open_stream
        self._stream: Stream | None = None

    async def __aenter__(self) -> Stream:
        if self._stream is not None:
            raise RuntimeError("a stream is entered once; call engine.stream() again")
        self._stream = self._open_stream()
        return self._stream

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Synchronous on purpose: there is nothing here that a cancellation could cut.
        if self._stream is not None:
            self._stream.close()
