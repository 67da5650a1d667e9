"""The detokenizer: the actor that turns the core's tokens into each reader's text.

It does one thing for each step, not for each token: it takes all the output that
waits, groups it by stream, and wakes each reader at most once.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..mailbox import LoopInbox
from ..protocol.core import CoreReport
from ..protocol.requests import Ended, StepOutput
from .open_stream import OpenStream
from .streams import Streams
from .tracing import Tracer, sample

log = logging.getLogger("legato.detokenizer")


class Detokenizer:
    """The detokenizing actor; it lives in the front end's loop.

    Args:
        inbox: The core's reports.
        streams: The open streams.
        tracer: Records each delivery.
        on_news: Told of every report once its output is delivered.
    """

    def __init__(
        self,
        inbox: LoopInbox[CoreReport],
        streams: Streams,
        tracer: Tracer,
        on_news: Callable[[CoreReport], None],
    ) -> None:
        self._inbox = inbox
        self._streams = streams
        self._tracer = tracer
        self._on_news = on_news
        self._num_traced = 0
        self._untold: deque[CoreReport] = deque()

    async def run(self) -> None:
        """Work until cancelled; what waits in the inbox then is lost on purpose."""
        self._tell()  # what this actor left untold if it failed before
        while True:
            reports = await self._inbox.drain()
            if self._tracer.on:
                now_s = time.perf_counter()
                self._tracer.count("detokenizer", now_s, len(reports))
                self._tracer.count("detokenizer", now_s, 0)
            self.handle(reports)
            # Where more waits already, nothing above would have let the loop turn: the
            # readers would get nothing, and newcomers would stand at the door.
            await asyncio.sleep(0)

    def handle(self, reports: Sequence[CoreReport]) -> None:
        """Take the reports of one turn; more than one if this loop lags.

        Output is delivered together, so that a loop that lags does less for each
        token: one decoding and one waking for each reader, whatever came for it.
        """
        began_s = time.perf_counter()
        self._untold += reports
        outputs = [report.output for report in reports if report.output is not None]
        if outputs:
            try:
                self._deliver(outputs, began_s)
            except Exception as error:
                self._lose(outputs, error)
        self._tell()

    def _tell(self) -> None:
        """Pass the reports on; one is done with only once it was heard."""
        while self._untold:
            self._on_news(self._untold[0])
            self._untold.popleft()

    def _deliver(self, outputs: Sequence[StepOutput], began_s: float) -> None:
        if len(outputs) > 1 or not self._arrive(outputs[0], began_s):
            self._gather(outputs, began_s)
        if self._tracer.on:
            self._trace(outputs, began_s)

    def _arrive(self, output: StepOutput, now_s: float) -> bool:
        """Deliver one step's tokens, in one pass, if it brings nothing else."""
        requests = output.requests
        more = output.ended or output.logprobs or output.scored
        if more or len(set(requests)) < len(requests):
            return False
        find = self._streams.by_request.get
        for request, token in zip(requests, output.tokens, strict=True):
            stream = find(request)
            if stream is not None:
                try:
                    stream.arrive(token, now_s)
                except Exception as error:
                    self._spoil(stream, error)
        return True

    def _gather(self, outputs: Sequence[StepOutput], began_s: float) -> None:
        """Deliver all that came, each stream's together."""
        touched: list[OpenStream] = []
        ends: dict[int, Ended] = {}
        find = self._streams.by_request.get
        for output in outputs:
            for scored in output.scored:
                stream = find(scored.request)
                if stream is not None:
                    stream.report.scores += scored.logprobs
            for request, token in zip(output.requests, output.tokens, strict=True):
                stream = find(request)
                if stream is not None:
                    if not stream.num_fresh:
                        touched.append(stream)
                    stream.num_fresh += 1
                    stream.arrived.append(token)
            for position, logprobs in output.logprobs:
                stream = find(output.requests[position])
                if stream is not None:
                    stream.arrived_logprobs.append(logprobs)
            for ended in output.ended:
                stream = find(ended.request)
                if stream is not None and ended.request not in ends:
                    ends[ended.request] = ended
                    if not stream.num_fresh:
                        touched.append(stream)
        for stream in touched:
            try:
                stream.settle(ends.get(stream.request), began_s)
            except Exception as error:
                self._spoil(stream, error)

    def _lose(self, outputs: Sequence[StepOutput], error: Exception) -> None:
        """End the streams of output that could not be delivered.

        How much of it was is not known, and a gap in a text would be worse than an end.
        """
        log.exception("the output of a step cannot be delivered")
        emitted = {token.request for output in outputs for token in output.emitted}
        ended = {end.request for output in outputs for end in output.ended}
        for request in emitted | ended:
            self._streams.cancel(request)
            self._streams.fail(request, error)

    def _trace(self, outputs: Sequence[StepOutput], began_s: float) -> None:
        tracer, delivered_s = self._tracer, time.perf_counter()
        touched = sample(self._num_traced, outputs[0].requests)
        self._num_traced += 1
        count = sum(len(output.tokens) for output in outputs)
        tracer.span("detokenizer", "deliver", began_s, delivered_s, count, touched)
        for output in outputs:
            for ended in output.ended:
                now_s = time.perf_counter()
                tracer.span(
                    "streams",
                    "last delta",
                    delivered_s,
                    now_s,
                    requests=(ended.request,),
                )

    def _spoil(self, stream: OpenStream, error: Exception) -> None:
        """Whatever breaks in one stream costs the others nothing."""
        try:
            stream.spoil(error)
        except Exception as worse:
            self._streams.drop(stream, worse)
