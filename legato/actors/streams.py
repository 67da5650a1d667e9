"""Every stream that is open, as the front end knows them.

From the request to its reader's leaving. All of it lives in the front end's loop.
"""

import logging
from collections.abc import Iterator, Mapping

from ..protocol.errors import Failure, LegatoError
from ..protocol.requests import Cancel, Generate
from .backlog import Backlog
from .observer import StreamObserver
from .open_stream import OpenStream
from .orders import OrderLine
from .text import Vocabulary

log = logging.getLogger("legato.streams")


class Streams:
    """Every open stream, by the engine's number.

    Args:
        vocabulary: For their text.
        core: Takes cancels and credit.
        observer: Hears of first tokens, gaps and ends.

    Attributes:
        by_request: The open streams, to look up; a stream that is not there is one
            that nobody waits for any more.
    """

    def __init__(
        self, vocabulary: Vocabulary, core: OrderLine, observer: StreamObserver
    ) -> None:
        self._vocabulary = vocabulary
        self._core = core
        self._observer = observer
        self._open: dict[int, OpenStream] = {}
        self.by_request: Mapping[int, OpenStream] = self._open
        self.backlog = Backlog()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenStream]:
        return iter(list(self._open.values()))

    def open(self, generate: Generate) -> OpenStream:
        """Begin a stream, before its request goes anywhere."""
        stream = OpenStream(
            generate, self._vocabulary, self._core, self._observer, self.backlog
        )
        self._open[generate.request] = stream
        return stream

    def cancel(self, request: int) -> None:
        """End a stream early; the reader still gets its terminal event."""
        stream = self._open.get(request)
        if stream is not None and not (stream.ended or stream.cancelled):
            stream.cancel()

    def forget(self, request: int) -> None:
        """Let go of a stream whose reader has left, and cancel it if it runs."""
        self.cancel(request)
        stream = self._open.pop(request, None)
        if stream is not None:
            stream.abandon()

    def fail(self, request: int, error: Exception) -> None:
        """End one stream with an error; one that is not ours becomes EngineFailed."""
        stream = self._open.get(request)
        if stream is not None:
            ours = isinstance(error, LegatoError)
            stream.fail(error if ours else Failure.of(error).error())

    def resume_all(self) -> None:
        """Tell a new core of every stream that the last one owed something."""
        for stream in self:
            try:
                stream.resume()
            except LegatoError as error:
                stream.fail(error)

    def drop(self, stream: OpenStream, error: Exception) -> None:
        """Give up a stream that cannot even be ended; its reader gets the error."""
        log.error("request %d cannot be ended", stream.request, exc_info=error)
        self._open.pop(stream.request, None)
        self._core.put_urgent(Cancel(stream.request))
        stream.break_off(Failure.of(error).error())

    def give_up(self, failure: Failure) -> None:
        """End every stream with an error, and have the core forget it if it lives."""
        for stream in self:
            if stream.admit is not None and not stream.ended:
                self._core.put_urgent(Cancel(stream.request))
        self.fail_all(failure)

    def fail_all(self, failure: Failure) -> None:
        """End every stream with an error, whatever happens to any of them."""
        for stream in self:
            try:
                stream.fail(failure.error())
            except Exception as error:
                self.drop(stream, error)
