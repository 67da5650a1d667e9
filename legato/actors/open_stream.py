"""One request from its reader's side: its text, what waits, and how it ends.

The core knows nothing of it. It lives in the front end's loop; the tokenizer and the
detokenizer write, one reader reads.
"""

import asyncio
import logging
import time

from ..protocol.amend import Amend
from ..protocol.errors import Failure, LegatoError
from ..protocol.requests import (
    Admit,
    Cancel,
    Conversation,
    Delta,
    Ended,
    FinishReason,
    Generate,
    Usage,
)
from ..protocol.steps import TokenLogprobs
from .backlog import Backlog, Wait
from .bell import Bell
from .cadence import Cadence
from .flow import Flow
from .observer import StreamObserver
from .orders import OrderLine
from .prompt_report import PromptReport
from .stages import Stages
from .terms import Terms
from .text import MarkedVocabulary, StreamText, Vocabulary

log = logging.getLogger("legato.streams")

PAUSE_AT_TOKENS = 256  # unread, and until they are read


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
        self.report = PromptReport(params.prompt_logprobs is not None)
        self.num_fresh = self._unread = 0
        self.ended = self.cancelled = False
        self.failure: LegatoError | None = None
        self._emitted: list[int] = []
        marked = isinstance(generate.prompt, Conversation)
        tokens = MarkedVocabulary(vocabulary) if marked else vocabulary
        self._text = StreamText(tokens, params.stop, params.include_stop)
        # Only who looks for stop strings must look at every token as it comes.
        self._matching = bool(params.stop)
        self._num_to_stop: int | None = None
        self._core = core
        self._observer = observer
        self._wait = Wait(backlog, generate.prompt)
        self._lags = False
        self.flow = Flow(generate.request, core)
        self.terms = Terms(core)
        self._cadence = Cadence(self.stages, self._wait, observer)
        self._last: Delta | None = None
        self.bell = Bell(f"stream {generate.request}")
        self._decided = asyncio.Event()

    @property
    def request(self) -> int:
        """The engine's number."""
        return self.generate.request

    @property
    def is_starved(self) -> bool:
        """Whether its reader has read all that it granted, and waits for more."""
        return self.flow.is_out and not self._unread and not self.ended

    async def decided(self) -> None:
        """Wait until it is handed to the core, or has ended before."""
        await self._decided.wait()

    def note_admitted(self, order: Admit) -> None:
        """Keep what the core was told, for the next one; then tell what came before."""
        self.admit = self.terms.open(order)
        self.report.prompt = order.prompt
        self._decided.set()
        self.flow.open()

    def grant(self, tokens: int) -> None:
        """Give the reader more tokens; without a limit it gets all anyway."""
        if not self.ended and self.flow.ration is not None:
            self.flow.ration.grant(tokens)
            self.settle(None, time.perf_counter())

    def amend(self, amend: Amend) -> None:
        """Change limits under way, for this core and those after it."""
        if not self.ended:
            self.admit = self.terms.amend(self.admit, amend)

    def take(self) -> Delta | None:
        """Take what is new, decoded now, in one piece however much; or None."""
        if self._last is not None:
            delta, self._last = self._last, None
            return delta
        if not self._unread or self.ended:
            return None
        self._unread = 0
        if self._lags:
            self._lags = False
            self.flow.lag(False)
        try:
            if not self._matching:
                more = self.arrived_logprobs or self.report.is_due
                if len(self.arrived) == 1 and not more:
                    token = self.arrived.pop()
                    text = self._text.pass_on(token)
                    if text is not None:
                        self._emitted.append(token)
                        return Delta(text, (token,))
                    self.arrived.append(token)
                self._push(False)
            text, ids, logprobs = self._text.take()
        except Exception as error:
            self.spoil(error)
            return None
        # A reader whose credit is used up must come to know, or it would wait for ever.
        new = text or ids or self.flow.is_out
        return self.report.on(Delta(text, ids, logprobs)) if new else None

    def arrive(self, token: int, now_s: float) -> None:
        """Let the reader have one token; as ``settle`` does, if nothing else came."""
        self.arrived.append(token)
        if self.ended or self._matching or self.flow.ration is not None:
            self.num_fresh += 1
            self.settle(None, now_s)
        else:
            self._cadence.note(1, now_s)
            self._unread += 1
            if self._unread > PAUSE_AT_TOKENS and not self._lags:
                self._lag()
            self.bell.ring()

    def settle(self, ended: Ended | None, now_s: float) -> None:
        """Let the reader have all that arrived in one turn, with the end if it came.

        Args:
            ended: The terminal event, if it came.
            now_s: The clock.
        """
        fresh, self.num_fresh = self.num_fresh, 0
        if self.ended or self._num_to_stop is not None:
            self.arrived.clear()  # run past the end, and nobody's
            self.arrived_logprobs.clear()
            fresh = 0
        elif self.flow.ration is not None:
            fresh, ended = self.flow.share(
                self.arrived, self.arrived_logprobs, fresh, ended
            )
        if fresh:
            self._cadence.note(fresh, now_s)
            self._unread += fresh
            if self._matching:
                self._push(ended is not None and ended.end_token)
        if ended is not None:
            self.end(ended)
        elif fresh:
            if self._unread > PAUSE_AT_TOKENS and not self._lags:
                self._lag()
            self.bell.ring()

    def _lag(self) -> None:
        self._lags = True
        self.flow.lag(True)

    def _push(self, end_token: bool) -> None:
        """Turn what arrived into text; the last may be an end token, which is none."""
        tokens, self.arrived = self.arrived, []
        logprobs, self.arrived_logprobs = self.arrived_logprobs, []
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
        self._last = self.report.on(Delta(*self._text.take(), reason, usage))
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
        self._close(FinishReason.ERROR, usage or Usage(0, len(self._emitted)))

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
        if self.ended or admit is None or self.flow.final is not None:
            return  # an order to admit it is still to come, or it has ended
        usage = Usage(len(admit.prompt), len(self._emitted) + len(self.arrived))
        if self._num_to_stop is not None:
            self.end(Ended(self.request, FinishReason.STOP, usage))
        elif self.cancelled:
            self.end(Ended(self.request, FinishReason.CANCELLED, usage))
        else:
            emitted = (*self._emitted, *self.arrived, *self.flow.withheld)
            self._core.put_nowait(admit.resumed(emitted, len(self.report.scores)))
            self.flow.repeat()

    def cancel(self) -> None:
        """End it early: here, if the core has nothing more to say of it."""
        final = self.flow.final
        if self.admit is None or final is not None:
            usage = Usage(0, 0) if final is None else final.usage
            self.end(Ended(self.request, FinishReason.CANCELLED, usage))
        else:
            self.cancelled = True
            self._core.put_urgent(Cancel(self.request))

    def abandon(self) -> None:
        """Note that nobody reads it any more: that is its end, if it had none."""
        self.bell.listen(None)
        if not self.ended:
            num_prompt = 0 if self.admit is None else len(self.admit.prompt)
            usage = Usage(num_prompt, len(self._emitted) + len(self.arrived))
            self._close(FinishReason.CANCELLED, usage)

    def break_off(self, error: LegatoError) -> None:
        """End with an error, whatever else is broken; what has no text is lost."""
        self.failure, self._last = error, None
        self._shut()
        self.bell.listen(None)  # it may be what breaks; a task that waits is woken
        self.bell.ring()

    def _shut(self) -> None:
        self.ended = True
        self.flow.close()
        self._decided.set()
        self._wait.end()

    def _close(self, reason: FinishReason, usage: Usage) -> None:
        self._shut()
        self.stages.ended_s = time.perf_counter()
        self._observer.ended(reason, usage, self.stages)
        self.bell.ring()
