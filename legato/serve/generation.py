"""Answers over HTTP: in one piece, or as server-sent events.

One endpoint serves both protocols; what differs between them is data: how a body is
read and how an answer is shaped.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ..protocol.errors import EngineClosed
from ..protocol.openai.chat import ChatAnswer, read_chat
from ..protocol.openai.completion import CompletionAnswer, read_completion
from ..protocol.openai.generation import FINISH, Generation
from ..protocol.requests import Completion, Delta, FinishReason, Usage
from .backend import AnswerStream, Backend
from .exchange import ClientGone, Exchange
from .gate import Gate
from .judgement import check_length, check_model, refusal_of

DONE = b"data: [DONE]\n\n"
SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies such as nginx hold events back unless told not to.
    (b"x-accel-buffering", b"no"),
]


class Answer(Protocol):
    """How a protocol shapes an answer."""

    def opening(self) -> bytes:
        """The first chunk, or nothing."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """A chunk of text, or nothing."""
        ...

    def closing(self, reason: FinishReason) -> bytes:
        """The last chunk."""
        ...

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last."""
        ...

    def whole(self, answer: Completion) -> bytes:
        """The answer in one piece."""
        ...


Read = Callable[[bytes, Mapping[str, float]], Generation]
Shape = type[ChatAnswer] | type[CompletionAnswer]


class GenerationEndpoint:
    """``POST`` a prompt, get an answer.

    Args:
        engine: Answers.
        gate: Lets requests in.
        read: Reads a body.
        shape: Shapes the answer.
        prefix: Of the answer's id.
    """

    def __init__(
        self, engine: Backend, gate: Gate, read: Read, shape: Shape, prefix: str
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._read = read
        self._shape = shape
        self._prefix = prefix

    async def __call__(self, exchange: Exchange) -> None:
        """Serve one request.

        Raises:
            LegatoError: It cannot be served; nothing was sent yet.
            ClientGone: The client left.
        """
        body = await exchange.read_json()
        with self._gate.admit():
            request = self._read(body, self._engine.default_params())
            check_model(request.model, self._engine.name)
            check_length(request.prompt, self._engine.max_context)
            answer = self._shape(
                f"{self._prefix}-{uuid.uuid4().hex}",
                self._engine.name,
                int(time.time()),
                include_usage=request.include_usage,
                token_bytes=self._engine.token_bytes,
            )
            serve = self._stream if request.stream else self._collect
            await exchange.while_connected(lambda: serve(exchange, request, answer))

    async def _collect(
        self, exchange: Exchange, request: Generation, answer: Answer
    ) -> None:
        try:
            async with self._open(request) as stream:
                whole = await collect(stream)
        except Exception as error:
            raise refusal_of(error, request) from error
        await exchange.respond(200, answer.whole(whole))

    async def _stream(
        self, exchange: Exchange, request: Generation, answer: Answer
    ) -> None:
        try:
            # Nothing is sent before the first delta, so that a request refused by the
            # tokenizer or the scheduler still gets a status of its own.
            async with self._open(request) as stream:
                delta = await anext(stream)
                await exchange.start(200, SSE_HEADERS)
                await exchange.write(
                    event(answer.opening()) + event(answer.delta(delta))
                )
                while delta.finish_reason is None:
                    delta = await anext(stream)
                    if chunk := answer.delta(delta):
                        await exchange.write(event(chunk))
                await exchange.finish(ending(answer, delta, request.include_usage))
        except ClientGone:
            raise
        except Exception as error:
            refusal = refusal_of(error, request)
            if not exchange.started:
                raise refusal from error
            await exchange.finish(event(refusal.body()) + DONE)

    def _open(self, request: Generation) -> AbstractAsyncContextManager[AnswerStream]:
        return self._engine.stream(
            request.prompt, request.params, tenant=request.tenant
        )


def chat_endpoint(engine: Backend, gate: Gate) -> GenerationEndpoint:
    """``POST /v1/chat/completions``."""
    return GenerationEndpoint(engine, gate, read_chat, ChatAnswer, "chatcmpl")


def completion_endpoint(engine: Backend, gate: Gate) -> GenerationEndpoint:
    """``POST /v1/completions``."""
    return GenerationEndpoint(engine, gate, read_completion, CompletionAnswer, "cmpl")


async def collect(stream: AnswerStream) -> Completion:
    """Read an answer to its end.

    Raises:
        LegatoError: It failed, or the server cut it.
    """
    pieces = [delta async for delta in stream]
    reason, usage = end_of(pieces[-1])
    return Completion(
        text="".join(piece.text for piece in pieces),
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        finish_reason=reason,
        usage=usage,
        logprobs=tuple(entry for piece in pieces for entry in piece.logprobs),
    )


def ending(answer: Answer, last: Delta, include_usage: bool) -> bytes:
    """The events after the text.

    Raises:
        EngineClosed: The server cut the answer.
    """
    reason, usage = end_of(last)
    events = event(answer.closing(reason))
    if include_usage:
        events += event(answer.usage(usage))
    return events + DONE


def end_of(last: Delta) -> tuple[FinishReason, Usage]:
    """Why an answer ended and what it took.

    Raises:
        EngineClosed: The server cut it: over HTTP a client cannot cancel and stay.
    """
    reason = last.finish_reason
    if reason is None or reason not in FINISH or last.usage is None:
        raise EngineClosed("the server ended this answer early")
    return reason, last.usage


def event(data: bytes) -> bytes:
    """One server-sent event; nothing for no data."""
    return b"data: %b\n\n" % data if data else b""
