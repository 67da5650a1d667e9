"""The detokenizer: the actor that turns the core's tokens into each reader's text.

It does one thing for each step, not for each token: it takes all the output that
waits, groups it by stream, and wakes each reader at most once.
"""

import logging
import time
from collections.abc import Callable

from ..mailbox import LoopInbox
from ..protocol.core import CoreReport
from ..protocol.requests import Emitted, Ended, StepOutput
from .streams import OpenStream, Streams
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

    async def run(self) -> None:
        """Work until cancelled; what waits in the inbox then is lost on purpose."""
        while True:
            reports = await self._inbox.drain()
            if self._tracer.on:
                now_s = time.perf_counter()
                self._tracer.count("detokenizer", now_s, len(reports))
                self._tracer.count("detokenizer", now_s, 0)
            for report in reports:
                self.handle(report)

    def handle(self, report: CoreReport) -> None:
        """Take one report."""
        output = report.output
        if output is not None:
            began_s = time.perf_counter()
            self._deliver(output)
            if self._tracer.on:
                self._trace(output, began_s)
        self._on_news(report)

    def _deliver(self, output: StepOutput) -> None:
        by_request: dict[int, list[Emitted]] = {}
        for token in output.emitted:
            by_request.setdefault(token.request, []).append(token)
        ends = {ended.request: ended for ended in output.ended}
        for request, tokens in by_request.items():
            self._guard(request, self._push, tokens, ends.get(request))
        for request, ended in ends.items():
            self._guard(request, OpenStream.end, ended)

    def _trace(self, output: StepOutput, began_s: float) -> None:
        now_s, tracer = time.perf_counter(), self._tracer
        touched = sample(self._num_traced, output.emitted)
        self._num_traced += 1
        tracer.span(
            "detokenizer", "deliver", began_s, now_s, len(output.emitted), touched
        )
        for ended in output.ended:
            tracer.span(
                "streams", "last delta", began_s, now_s, requests=(ended.request,)
            )

    def _push(
        self, stream: OpenStream, tokens: list[Emitted], ended: Ended | None
    ) -> None:
        stream.push(tokens, ended is not None and ended.end_token)
        if ended is None:
            stream.deliver()

    def _guard(self, request: int, work: Callable[..., None], *args: object) -> None:
        """Whatever breaks here breaks one stream, and costs the others nothing."""
        stream = self._streams.get(request)
        if stream is None:
            return
        try:
            work(stream, *args)
        except Exception as error:
            log.exception("the text of request %d cannot be made", request)
            self._streams.cancel(request)
            self._streams.fail(request, error)
