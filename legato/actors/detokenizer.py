"""The detokenizer: the actor that turns the core's tokens into each reader's text.

It does one thing for each step, not for each token: it takes all the output that
waits, groups it by stream, and wakes each reader at most once.
"""

from collections.abc import Callable

from ..mailbox import LoopInbox
from ..protocol.core import CoreReport
from ..protocol.requests import Emitted, StepOutput
from .streams import Streams


class Detokenizer:
    """The detokenizing actor; it lives in the front end's loop.

    Args:
        inbox: The core's reports.
        streams: The open streams.
        on_news: Told of every report that carries more than output.
    """

    def __init__(
        self,
        inbox: LoopInbox[CoreReport],
        streams: Streams,
        on_news: Callable[[CoreReport], None],
    ) -> None:
        self._inbox = inbox
        self._streams = streams
        self._on_news = on_news

    async def run(self) -> None:
        """Work until cancelled; what waits in the inbox then is lost on purpose."""
        while True:
            for report in await self._inbox.drain():
                self.handle(report)

    def handle(self, report: CoreReport) -> None:
        """Take one report."""
        if report.output is not None:
            self._deliver(report.output)
        if report.stats or report.limits or report.failure:
            self._on_news(report)

    def _deliver(self, output: StepOutput) -> None:
        by_request: dict[int, list[Emitted]] = {}
        for token in output.emitted:
            by_request.setdefault(token.request, []).append(token)
        end_tokens = {ended.request for ended in output.ended if ended.end_token}
        ends = {ended.request for ended in output.ended}
        for request, tokens in by_request.items():
            stream = self._streams.get(request)
            if stream is not None:
                stream.push(tokens, request in end_tokens)
                if request not in ends:
                    stream.deliver()
        for ended in output.ended:
            stream = self._streams.get(ended.request)
            if stream is not None:
                stream.end(ended)
