"""One stream's text: tokens in; text, token ids and log-probabilities out, together.

Knows bytes of tokens and stop strings; not who reads, nor why the answer ended. Owned
by one stream.
"""

from collections.abc import Sequence
from typing import Protocol

from ...protocol.steps import TokenLogprobs
from .decoder import ByteDecoder
from .stops import StopMatcher

Taken = tuple[str, tuple[int, ...], tuple[TokenLogprobs, ...]]


class TokenBytes(Protocol):
    """What a stream asks of a vocabulary."""

    def token_bytes(self, token: int) -> bytes:
        """Return a token's bytes; b"" for one that is no text."""
        ...


class StreamText:
    """Gate text, ids and log-probabilities of one stream.

    Log-probabilities come with every token or with none.

    An id leaves with the last character it contributes to, so the ids taken so far are
    always the ones behind the text taken so far. Where a stop string cuts the text, a
    token that gave at least one character before the cut leaves with it, and all later
    ones are dropped. What is taken in all does not depend on when ``take`` is called.

    Without stop strings ``push`` only stores, and ``take`` decodes all that has
    gathered at once: a reader that lags costs one decoding, not one for each token.

    Args:
        vocabulary: Gives each token's bytes.
        stops: Text that ends the stream.
        include_stop: Leave the stop string in the text.
    """

    __slots__ = (
        "_decoder",
        "_finished",
        "_ids",
        "_logprobs",
        "_matcher",
        "_num_decoded",
        "_num_released",
        "_pieces",
        "_spans",
        "_text",
        "_vocabulary",
    )

    def __init__(
        self,
        vocabulary: TokenBytes,
        stops: tuple[str, ...] = (),
        include_stop: bool = False,
    ) -> None:
        self._vocabulary = vocabulary
        self._decoder = ByteDecoder()
        self._matcher = StopMatcher(stops, include_stop) if stops else None
        self._finished = False
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprobs] = []
        # Without stop strings: bytes not decoded yet, of the last ids that wait.
        self._pieces: list[bytes] = []
        # With stop strings: released text, and for each id that waits the half-open
        # interval of the characters it contributes to, counted from the stream's start.
        self._text: list[str] = []
        self._spans: list[tuple[int, int]] = []
        self._num_decoded = 0
        self._num_released = 0

    @property
    def stopped(self) -> bool:
        """A stop string was found: whatever is pushed from now on is dropped."""
        return self._matcher is not None and self._matcher.stopped

    def push(self, token: int, logprobs: TokenLogprobs | None = None) -> None:
        """Add a token."""
        self._push(token, self._vocabulary.token_bytes(token), logprobs)

    def push_end_token(self, token: int, logprobs: TokenLogprobs | None = None) -> None:
        """Add a token that ended the answer: its id counts, and it gives no text."""
        self._push(token, b"", logprobs)

    def extend(
        self,
        tokens: Sequence[int],
        logprobs: Sequence[TokenLogprobs] = (),
        *,
        end_token: bool = False,
    ) -> int:
        """Add tokens that came together.

        Args:
            tokens: Their ids.
            logprobs: One for each, or none.
            end_token: The last one ended the answer, as in ``push_end_token``.

        Returns:
            How many of them, the last, came after a stop string and are nobody's.
        """
        look_up = self._vocabulary.token_bytes
        if self._matcher is None:
            pieces = [look_up(token) for token in tokens]
            if end_token:
                pieces[-1] = b""
            self._pieces += pieces
            self._ids += tokens
            self._logprobs += logprobs
            return 0
        last = len(tokens) - 1
        for index, token in enumerate(tokens):
            token_bytes = b"" if end_token and index == last else look_up(token)
            self._push(token, token_bytes, logprobs[index] if logprobs else None)
            if self._matcher.stopped:
                return last - index
        return 0

    def pass_on(self, token: int) -> str | None:
        """Let one token through at once, if nothing waits and it is whole ASCII.

        Most are, and most readers take each token as it comes: what they take is then
        this text and this id, at a third of the price of ``extend`` and ``take``.

        Returns:
            Its text; None if it must go the long way, and nothing has happened.
        """
        if self._matcher is not None or self._ids:  # as they do behind half a character
            return None
        token_bytes = self._vocabulary.token_bytes(token)
        return token_bytes.decode() if token_bytes.isascii() else None

    def finish(self) -> None:
        """Let everything go that waits: no token follows.

        An incomplete character becomes U+FFFD; what could have become a stop string is
        text.
        """
        self._finished = True
        if self._matcher is None or self._matcher.stopped:
            return
        self._release(self._matcher, self._decoder.flush())
        if not self._matcher.stopped:
            rest = self._matcher.flush()
            self._text.append(rest)
            self._num_released += len(rest)

    def take(self) -> Taken:
        """Take the text released since the last call, and all that belongs to it.

        Returns:
            Text, its ids, and one ``TokenLogprobs`` for each id (none if none came).
        """
        if self._matcher is None:
            return self._take_open()
        text = "".join(self._text)
        self._text.clear()
        # Once stopped, the end of what is released is the cut.
        released, stopped = self._num_released, self.stopped
        count = 0
        for begin, end in self._spans:
            if end > released and not (stopped and begin < released):
                break
            count += 1
        del self._spans[:count]
        taken = (text, *self._take_ids(count))
        if stopped:
            self._drop()
        return taken

    def _push(
        self, token: int, token_bytes: bytes, logprobs: TokenLogprobs | None
    ) -> None:
        if self._matcher is None:
            self._pieces.append(token_bytes)
        elif self._matcher.stopped:
            return
        else:
            self._match(self._matcher, token_bytes)
        self._ids.append(token)
        if logprobs is not None:
            self._logprobs.append(logprobs)

    def _match(self, matcher: StopMatcher, token_bytes: bytes) -> None:
        """Decode one token and look for a stop string."""
        decoder = self._decoder
        begin = self._num_decoded
        if decoder.num_pending and token_bytes and not decoder.joins(token_bytes):
            begin += 1
        text = decoder.feed(token_bytes)
        self._num_decoded += len(text)
        end = self._num_decoded + (decoder.num_pending > 0)
        self._spans.append((begin, end))
        self._release(matcher, text)

    def _release(self, matcher: StopMatcher, text: str) -> None:
        released = matcher.feed(text)
        if released:
            self._text.append(released)
            self._num_released += len(released)

    def _take_open(self) -> Taken:
        """Decode what has gathered, of a stream without stop strings."""
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        text = self._decoder.feed(data)
        if self._finished:
            text += self._decoder.flush()
        waiting = self._num_waiting(len(data)) if self._decoder.num_pending else 0
        pieces.clear()
        return (text, *self._take_ids(len(self._ids) - waiting))

    def _num_waiting(self, num_new: int) -> int:
        """Count the last ids that have a part in the character that is incomplete."""
        missing = self._decoder.num_pending
        if not missing:
            return 0
        if missing > num_new:
            # It began before the new bytes, so every id since then is part of it.
            return len(self._ids)
        count = 0
        while missing > 0:
            count += 1
            missing -= len(self._pieces[-count])
        return count

    def _take_ids(
        self, count: int
    ) -> tuple[tuple[int, ...], tuple[TokenLogprobs, ...]]:
        if count == len(self._ids):
            ids = tuple(self._ids)
            self._ids.clear()
        else:
            ids = tuple(self._ids[:count])
            del self._ids[:count]
        if not self._logprobs:
            return ids, ()
        logprobs = tuple(self._logprobs[:count])
        del self._logprobs[:count]
        return ids, logprobs

    def _drop(self) -> None:
        self._ids.clear()
        self._logprobs.clear()
        self._spans.clear()
