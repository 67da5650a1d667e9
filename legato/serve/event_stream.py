"""Answers on their way out as server-sent events."""

from ..protocol.openai.generation import FINISH, Generation
from ..protocol.openai.refusal import Refusal
from ..protocol.openai.usage import joint_usage
from ..protocol.requests import Usage
from .answer import Answer
from .choices import Batch
from .exchange import Exchange

DONE = b"data: [DONE]\n\n"
SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies such as nginx hold events back unless told not to.
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """The events of one request; each choice ends by itself, and all with ``[DONE]``.

    Args:
        exchange: Where they go.
        request: What was asked.
        answer: Shapes them.
    """

    def __init__(self, exchange: Exchange, request: Generation, answer: Answer) -> None:
        self._exchange = exchange
        self._request = request
        self._answer = answer
        self._begun = False
        self._usages: dict[int, Usage] = {}

    async def take(self, batch: Batch) -> None:
        """Send what is new, in one piece.

        Raises:
            ClientGone: The client left, or reads nothing.
        """
        answer, events = self._answer, b""
        if not self._begun:
            # All choices are opened at once and in order, whichever has text first:
            # clients that gather choices by their index expect them to appear so.
            self._begun = True
            for index in range(self._request.num_choices):
                events += event(answer.opening(index))
        for index, delta in batch:
            events += event(answer.delta(index, delta))
            reason, usage = delta.finish_reason, delta.usage
            if reason is not None and reason in FINISH and usage is not None:
                events += event(answer.closing(index, reason))
                self._usages[index] = usage
        # Nothing is sent before the first delta, so that a request refused by the
        # tokenizer or the scheduler still gets a status of its own.
        if not self._exchange.started:
            await self._exchange.start(200, SSE_HEADERS)
        if len(self._usages) == self._request.num_choices:
            await self._exchange.finish(events + self._ending())
        elif events:
            await self._exchange.write(events)

    async def fail(self, refusal: Refusal) -> None:
        """Send the error that ends all choices."""
        await self._exchange.finish(event(refusal.body()) + DONE)

    def _ending(self) -> bytes:
        if not self._request.include_usage:
            return DONE
        told = [self._usages[index] for index in range(self._request.num_choices)]
        usage = joint_usage(told, self._request.n)
        return event(self._answer.usage(usage)) + DONE


def event(data: bytes) -> bytes:
    """One server-sent event; nothing for no data."""
    return b"data: %b\n\n" % data if data else b""
