"""One answer of a chat, kept so that it can be read from its beginning again.

It belongs to nobody's connection and has no task of its own: whichever reader has read
all there is pulls the next delta, for all of them. With no reader nothing is pulled, so
that the engine soon pauses the sequence; with none for the grace period the answer is
let go.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager

import anyio

from ...protocol.ai_sdk_stream import UiMessageScript
from ...protocol.errors import EngineClosed
from ...protocol.openai.generation import FINISH, Generation
from ...protocol.openai.refusal import Refusal
from ..backend import AnswerStream, Backend
from ..choices import open_choice
from ..judgement import refusal_of

# Most chunks read at once, so that a replay is no single mouthful.
BATCH = 256


class Turn:
    """An answer.

    Args:
        generation: For the engine.
        script: Its shape on the wire.
        grace_s: How long it waits for a reader.
        replay_bytes: Most bytes it keeps; one that has more cannot be read again from
            its beginning, and keeps only what its readers have yet to read.
        on_gone: Called once, when nobody will read it any more.
    """

    def __init__(
        self,
        generation: Generation,
        script: UiMessageScript,
        *,
        grace_s: float,
        replay_bytes: int,
        on_gone: Callable[["Turn"], None],
    ) -> None:
        self._generation = generation
        self._script = script
        self._grace_s = grace_s
        self._replay_bytes = replay_bytes
        self._on_gone = on_gone
        self._context: AbstractAsyncContextManager[AnswerStream] | None = None
        self._stream: AnswerStream | None = None
        self._cancelled = False
        self._gone = False
        self._chunks: list[bytes] = []
        self._first = 0
        self._bytes = 0
        self._ended = False
        self._failure: Refusal | None = None
        self._readers: list[Reader] = []
        self._pulling = anyio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_readers(self) -> bool:
        """Whether anybody reads it."""
        return bool(self._readers)

    @property
    def is_whole(self) -> bool:
        """Whether it can still be read from its beginning."""
        return self._first == 0

    async def open(self, engine: Backend) -> None:
        """Ask the engine.

        Raises:
            LegatoError: It cannot be asked.
        """
        prompt, params = next(self._generation.choices())
        # Not left by a block: the answer outlives whoever asked for it. ``close`` lets
        # go at once, and leaves the context nothing to do; but it must not be dropped.
        self._context = open_choice(engine, self._generation, prompt, params)
        self._stream = await self._context.__aenter__()
        if self._gone:
            self._stream.close()
            return
        if self._cancelled:
            self._stream.cancel()
        self._wait()

    def cancel(self) -> None:
        """End it early; its readers are told. Idempotent."""
        self._cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    def close(self) -> None:
        """Let go of it; nobody will read it any more. Idempotent."""
        if self._gone:
            return
        self._gone = self._ended = True
        self._stop_waiting()
        if self._stream is not None:
            self._stream.close()
        self._on_gone(self)

    @contextmanager
    def read_from(self, start: int) -> Generator["Reader"]:
        """Read it from a chunk on, while in the block."""
        end = self._first + len(self._chunks)
        reader = Reader(self, min(max(start, self._first), end))
        self._stop_waiting()
        self._readers.append(reader)
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            if not self._readers:
                # One who has asked for more after the end was told all before it.
                if reader.has_ended or not self.is_whole:
                    self.close()
                else:
                    self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._grace_s, self.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def read(self, position: int) -> list[bytes]:
        """Wait for the chunks from a position on; nothing ends it.

        Cancelling loses nothing: another reader, or the same, goes on.

        Raises:
            Refusal: It failed before anything was told.
        """
        while True:
            if position < self._first + len(self._chunks):
                at = position - self._first
                return self._chunks[at : at + BATCH]
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return []
            async with self._pulling:
                if position == self._first + len(self._chunks) and not self._ended:
                    await self._pull()

    async def _pull(self) -> None:
        assert self._stream is not None, "read only once it is open"
        try:
            delta = await anext(self._stream)
            chunks = self._script.delta(delta)
            reason = delta.finish_reason
            if reason is not None:
                if reason not in FINISH and not self._cancelled:
                    raise EngineClosed("the server ended this answer early")
                chunks += self._script.ending(reason, delta.usage)
                self._finish()
        except Exception as error:
            self._finish()
            refusal = refusal_of(error, self._generation)
            if not self._script.begun:
                self._failure = refusal
                return
            chunks = self._script.failing(refusal)
        self._keep(chunks)

    def _finish(self) -> None:
        self._ended = True
        if self._stream is not None:
            self._stream.close()

    def _keep(self, chunks: list[bytes]) -> None:
        self._chunks += chunks
        self._bytes += sum(map(len, chunks))
        if self._bytes <= self._replay_bytes:
            return
        done = min(reader.position for reader in self._readers) - self._first
        if done > 0:
            self._bytes -= sum(map(len, self._chunks[:done]))
            del self._chunks[:done]
            self._first += done


class Reader:
    """One who reads an answer.

    Args:
        turn: The answer.
        position: The chunk that comes next.
    """

    def __init__(self, turn: Turn, position: int) -> None:
        self._turn = turn
        self.position = position
        self.has_ended = False

    async def read(self) -> tuple[int, list[bytes]]:
        """Wait for the next chunks.

        Returns:
            The number of the first, and the chunks; no chunks at the end.

        Raises:
            Refusal: The answer failed before anything was told.
        """
        first = self.position
        try:
            chunks = await self._turn.read(first)
        except Refusal:
            self.has_ended = True
            raise
        self.has_ended = not chunks
        self.position += len(chunks)
        return first, chunks
