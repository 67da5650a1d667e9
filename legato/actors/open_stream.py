"""One request from its reader's side: its text, what waits, and how it ends.

The core knows nothing of it. It lives in the front end's loop; the tokenizer and the
detokenizer write, one reader reads.
"""

import asyncio
import logging
import time

from msgspec import structs

from ..protocol.errors import Failure, LegatoError
from ..protocol.requests import (
    Admit,
    Cancel,
    Credit,
    Delta,
    Ended,
    FinishReason,
    Generate,
    Usage,
)
from ..protocol.steps import TokenLogprobs
from .backlog import Backlog, Wait
from .bell import Bell
from .observer import StreamObserver
from .orders import OrderLine
from .stages import Stages
from .text import StreamText, Vocabulary

log = logging.getLogger("legato.streams")

# A reader that leaves so many tokens unread is paused, and runs again below the lower
# bound: far enough apart that a reader near the limit does not flip at every token.
PAUSE_AT_TOKENS = 256
RESUME_AT_TOKENS = 64


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
        self.arrived: list[int] = []
        self.arrived_logprobs: list[TokenLogprobs] = []
        self.num_fresh = 0
        self.ended = False
        self.cancelled = False
        self.failure: LegatoError | None = None
        self._emitted: list[int] = []
        self._text = StreamText(vocabulary, params.stop, params.include_stop)
        # Only who looks for stop strings must look at every token as it comes.
        self._matching = bool(params.stop)
        self._num_to_stop: int | None = None
        self._core = core
        self._observer = observer
        self._wait = Wait(backlog, generate.prompt)
        self._unread = 0
        self._paused = False
        self._token_at_s = 0.0
        self._last: Delta | None = None
        self.bell = Bell(f"stream {generate.request}")
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

    def take(self) -> Delta | None:
        """Take what is new, decoded now and in one piece; None if nothing is.

        A reader that lags so costs one decoding, not one for each token.
        """
        if self._last is not None:
            delta, self._last = self._last, None
            return delta
        if not self._unread or self.ended:
            return None
        self._unread = 0
        if self._paused:
            self._paused = False
            self._core.put_urgent(Credit(self.request, True))
        try:
            if not self._matching:
                self._push(False)
            text, ids, logprobs = self._text.take()
        except Exception as error:
            self.spoil(error)
            return None
        return Delta(text, ids, logprobs) if text or ids else None

    def settle(self, ended: Ended | None, now_s: float) -> None:
        """Let the reader have what arrived, with the end if there is one.

        One call for all that arrived in one turn, however many steps it was.

        Args:
            ended: The terminal event, if it came.
            now_s: The clock.
        """
        fresh, self.num_fresh = self.num_fresh, 0
        if self.ended or self._num_to_stop is not None:
            self.arrived.clear()  # run past the end, and nobody's
            self.arrived_logprobs.clear()
            fresh = 0
        if fresh:
            self._observe(fresh, now_s)
            self._unread += fresh
            if self._matching:
                self._push(ended is not None and ended.end_token)
        if ended is not None:
            self.end(ended)
        elif fresh:
            if self._unread > PAUSE_AT_TOKENS and not self._paused:
                self._paused = True
                self._core.put_urgent(Credit(self.request, False))
            self.bell.ring()

    def _push(self, end_token: bool) -> None:
        """Turn what arrived into text; the last may be an end token, which is none."""
        tokens, self.arrived = self.arrived, []
        logprobs = self.arrived_logprobs
        if logprobs:
            self.arrived_logprobs = []
        if not tokens:
            return
        num_dropped = self._text.extend(tokens, logprobs, end_token=end_token)
        self._emitted += tokens
        if self._matching and self._text.stopped and self._num_to_stop is None:
            # Tokens past the stop string are nobody's, and of no next core.
            del self._emitted[len(self._emitted) - num_dropped :]
            self._num_to_stop = len(self._emitted)
            if not end_token:
                self._core.put_urgent(Cancel(self.request, "stop"))

    def end(self, ended: Ended) -> None:
        """Leave what is held back and the terminal event; only the first counts."""
        if self.ended:
            return
        self.stages.admitted_s = ended.admitted_s
        self.stages.started_s = ended.started_s
        if ended.failure is not None:
            self.fail(ended.failure.error(), ended.usage)
            return
        reason, usage = ended.reason, ended.usage
        self._push(ended.end_token)
        if self._num_to_stop is not None:
            # What the core ran past the stop string is nobody's.
            reason = FinishReason.STOP
            usage = Usage(usage.prompt_tokens, self._num_to_stop, usage.cached_tokens)
        self._text.finish()
        self._last = Delta(*self._text.take(), reason, usage)
        self._close(reason, usage)

    def fail(self, error: LegatoError, usage: Usage | None = None) -> None:
        """End with an error, after the text that came before it."""
        if self.ended:
            return
        self._push(False)
        self._text.finish()
        text, ids, logprobs = self._text.take()
        self._last = Delta(text, ids, logprobs) if text or ids else None
        self.failure = error
        usage = usage or Usage(0, len(self._emitted))
        self._close(FinishReason.ERROR, usage)

    def spoil(self, error: Exception) -> None:
        """End a stream whose text cannot be made; it costs the others nothing.

        Raises:
            Exception: It cannot even be ended.
        """
        log.exception("the text of request %d cannot be made", self.request)
        self._core.put_urgent(Cancel(self.request))
        self.fail(Failure.of(error).error())

    def resume(self) -> None:
        """Tell a new core to go on from what was emitted, if that is still wanted."""
        admit = self.admit
        if self.ended or admit is None:
            return  # an order to admit it is still to come
        num_emitted = len(self._emitted) + len(self.arrived)
        usage = Usage(len(admit.prompt), num_emitted)
        if self._num_to_stop is not None:
            self.end(Ended(self.request, FinishReason.STOP, usage))
        elif self.cancelled:
            self.end(Ended(self.request, FinishReason.CANCELLED, usage))
        else:
            emitted = (*self._emitted, *self.arrived)
            self._core.put_nowait(structs.replace(admit, emitted=emitted))
            if self._paused:
                self._core.put_urgent(Credit(self.request, False))

    def abandon(self) -> None:
        """Note that nobody reads it any more; what it ends with is nobody's."""
        self.bell.listen(None)
        self._wait.end()

    def _close(self, reason: FinishReason, usage: Usage) -> None:
        self.ended = True
        self._wake_decided()
        self._wait.end()
        self.stages.ended_s = time.perf_counter()
        self._observer.ended(reason, usage, self.stages)
        self.bell.ring()

    def _observe(self, num_tokens: int, now_s: float) -> None:
        if self._token_at_s:
            gap_s = (now_s - self._token_at_s) / num_tokens
            self._observer.token_gap(gap_s, num_tokens)
        else:
            self._wait.end()
            self.stages.first_token_s = now_s
            self._observer.first_token(now_s - self.generate.created_s)
            if num_tokens > 1:
                # What comes merged with the first token comes at once.
                self._observer.token_gap(0.0, num_tokens - 1)
        self._token_at_s = now_s
