"""One request from its reader's side: its text, what waits, and how it ends.

The core knows nothing of it. It lives in the front end's loop; the tokenizer and the
detokenizer write, one reader reads.
"""

import asyncio
import time
from typing import Protocol

from msgspec import structs

from ..mailbox import Mailbox, Overflow
from ..protocol.errors import LegatoError
from ..protocol.requests import (
    Admit,
    Cancel,
    Credit,
    Delta,
    Emitted,
    Ended,
    FinishReason,
    Generate,
    Usage,
)
from .backlog import Backlog, Wait
from .orders import OrderLine
from .stages import Stages
from .text import StreamText, Vocabulary

# A reader that leaves so many tokens unread is paused, and runs again below the lower
# bound: far enough apart that a reader near the limit does not flip at every token.
PAUSE_AT_TOKENS = 256
RESUME_AT_TOKENS = 64


class StreamObserver(Protocol):
    """Hears of what matters to the metrics."""

    def first_token(self, ttft_s: float) -> None:
        """A request's first token came, so long after its creation."""
        ...

    def token_gap(self, itl_s: float, tokens: int) -> None:
        """Later tokens came, each so long after the one before."""
        ...

    def ended(self, reason: FinishReason, usage: Usage, stages: Stages) -> None:
        """A request ended."""
        ...


class OpenStream:
    """One request from its reader's side.

    Args:
        generate: The request.
        vocabulary: For its text.
        core: Takes the reader's credit.
        observer: Hears of first tokens, gaps and ends.
        backlog: Counts it until its first token.
    """

    def __init__(
        self,
        generate: Generate,
        vocabulary: Vocabulary,
        core: OrderLine,
        observer: StreamObserver,
        backlog: Backlog,
    ) -> None:
        params = generate.params
        self.generate = generate
        self.stages = Stages(generate.created_s)
        self.admit: Admit | None = None
        self.arrived: list[Emitted] = []
        self.emitted: list[int] = []
        self.ended = False
        self.cancelled = False
        self.failure: LegatoError | None = None
        self._text = StreamText(vocabulary, params.stop, params.include_stop)
        self._num_to_stop: int | None = None
        self._core = core
        self._observer = observer
        self._wait = Wait(backlog, generate.prompt)
        self._unread = 0
        self._paused = False
        self._token_at_s = 0.0
        self._inbox = Mailbox[Delta](
            f"stream {generate.request}",
            1,
            overflow=Overflow.COALESCE,
            merge=Delta.merge,
        )
        self._deltas = self._inbox.address()
        self._inbox.drain_nowait()  # makes it this loop's, whoever reads first
        self._decided: asyncio.Future[None] | None = None

    @property
    def request(self) -> int:
        """The engine's number."""
        return self.generate.request

    async def decided(self) -> None:
        """Wait until it is handed to the core, or has ended before."""
        while self.admit is None and not self.ended:
            if self._decided is None:
                self._decided = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._decided)

    def note_admitted(self, order: Admit) -> None:
        """Keep what the core was told, for the next one."""
        self.admit = order
        self._wake_decided()

    def _wake_decided(self) -> None:
        if self._decided is not None and not self._decided.done():
            self._decided.set_result(None)

    async def read(self) -> Delta:
        """Wait for what is new; cancelling loses nothing.

        Raises:
            MailboxClosed: The stream has ended and was read to its end; ``failure``
                says whether it failed.
        """
        delta = await self._inbox.get()
        self._unread -= len(delta.token_ids)
        if self._paused and self._unread <= RESUME_AT_TOKENS and not self.ended:
            self._paused = False
            self._core.put_urgent(Credit(self.request, True))
        return delta

    def settle(self, ended: Ended | None) -> None:
        """Take what arrived, and let the reader have it, with the end if there is one.

        One call for all that arrived in one turn, however many steps it was.
        """
        tokens, self.arrived = self.arrived, []
        if tokens and not self.ended and self._num_to_stop is None:
            self._observe(len(tokens))
            self._push(tokens, ended is not None and ended.end_token)
        if ended is not None:
            self.end(ended)
        else:
            self.deliver()

    def _push(self, tokens: list[Emitted], end_token: bool) -> None:
        """Add tokens; the last may be an end token, which is no text."""
        last = len(tokens) - 1 if end_token else len(tokens)
        text, emitted = self._text, self.emitted
        for index, token in enumerate(tokens):
            emitted.append(token.token)
            if index == last:
                text.push_end_token(token.token, token.logprobs)
            else:
                text.push(token.token, token.logprobs)
            if text.stopped:
                self._num_to_stop = len(emitted)
                if not end_token:
                    self._core.put_urgent(Cancel(self.request, "stop"))
                break

    def deliver(self) -> None:
        """Let the reader have the text that is complete."""
        text, ids, logprobs = self._text.take()
        if text or ids:
            self._put(Delta(text, ids, logprobs))

    def end(self, ended: Ended) -> None:
        """Deliver what is held back and the terminal event; only the first counts."""
        if self.ended:
            return
        self.stages.admitted_s = ended.admitted_s
        self.stages.started_s = ended.started_s
        if ended.failure is not None:
            self.fail(ended.failure.error(), ended.usage)
            return
        reason, usage = ended.reason, ended.usage
        if self._num_to_stop is not None:
            # What the core ran past the stop string is nobody's.
            reason = FinishReason.STOP
            usage = Usage(usage.prompt_tokens, self._num_to_stop, usage.cached_tokens)
        self._text.finish()
        text, ids, logprobs = self._text.take()
        self._put(Delta(text, ids, logprobs, reason, usage))
        self._close(reason, usage)

    def fail(self, error: LegatoError, usage: Usage | None = None) -> None:
        """End with an error, after the text that came before it."""
        if self.ended:
            return
        self._text.finish()
        self.deliver()
        self.failure = error
        usage = usage or Usage(0, len(self.emitted))
        self._close(FinishReason.ERROR, usage)

    def resume(self) -> None:
        """Tell a new core to go on from what was emitted, if that is still wanted."""
        admit = self.admit
        if self.ended or admit is None:
            return  # an order to admit it is still to come
        usage = Usage(len(admit.prompt), len(self.emitted))
        if self._num_to_stop is not None:
            self.end(Ended(self.request, FinishReason.STOP, usage))
        elif self.cancelled:
            self.end(Ended(self.request, FinishReason.CANCELLED, usage))
        else:
            emitted = tuple(self.emitted)
            self._core.put_nowait(structs.replace(admit, emitted=emitted))
            if self._paused:
                self._core.put_urgent(Credit(self.request, False))

    def abandon(self) -> None:
        """Note that nobody reads it any more; what it ends with is nobody's."""
        self._wait.end()

    def _close(self, reason: FinishReason, usage: Usage) -> None:
        self.ended = True
        self._wake_decided()
        self._wait.end()
        self._deltas.close()
        self.stages.ended_s = time.perf_counter()
        self._observer.ended(reason, usage, self.stages)

    def _put(self, delta: Delta) -> None:
        self._unread += len(delta.token_ids)
        self._deltas.put_nowait(delta)
        if self._unread > PAUSE_AT_TOKENS and not self._paused and not self.ended:
            self._paused = True
            self._core.put_urgent(Credit(self.request, False))

    def _observe(self, num_tokens: int) -> None:
        now_s = time.perf_counter()
        gap_s = (now_s - self._token_at_s) / num_tokens
        if not self.emitted:
            self._wait.end()
            self.stages.first_token_s = now_s
            self._observer.first_token(now_s - self.generate.created_s)
            num_tokens -= 1
            gap_s = 0.0  # what comes merged with the first token comes at once
        if num_tokens:
            self._observer.token_gap(gap_s, num_tokens)
        self._token_at_s = now_s
