"""Answers over HTTP: in one piece, or as server-sent events.

One endpoint serves both protocols; what differs between them is data: how a body is
read and how an answer is shaped.
"""

import time
import uuid
from collections.abc import Callable, Mapping

from ..protocol.openai.chat import ChatAnswer, read_chat
from ..protocol.openai.completion import CompletionAnswer, echoes, read_completion
from ..protocol.openai.generation import Generation
from ..protocol.openai.usage import joint_usage
from ..protocol.requests import Delta
from .answer import Answer, joined
from .backend import Backend
from .choices import Batch, read_choices
from .event_stream import EventStream
from .exchange import ClientGone, Exchange
from .gate import Gate
from .judgement import check_length, check_model, refusal_of

Read = Callable[[bytes, Mapping[str, float]], Generation]
Shape = Callable[[Backend, Generation], Answer]


class GenerationEndpoint:
    """``POST`` a prompt, get an answer.

    Args:
        engine: Answers.
        gate: Lets requests in.
        read: Reads a body.
        shape: Makes what shapes the answer.
    """

    def __init__(self, engine: Backend, gate: Gate, read: Read, shape: Shape) -> None:
        self._engine = engine
        self._gate = gate
        self._read = read
        self._shape = shape

    async def __call__(self, exchange: Exchange) -> None:
        """Serve one request.

        Raises:
            LegatoError: It cannot be served; nothing was sent yet.
            ClientGone: The client left.
        """
        body = await exchange.read_json()
        with self._gate.admit():
            request = self._read(body, self._engine.default_params())
            request = request.of_tenant(exchange.tenant)
            check_model(request.model, self._engine.name)
            for prompt in request.prompts:
                check_length(prompt, self._engine.max_context)
            answer = self._shape(self._engine, request)
            serve = self._stream if request.stream else self._collect
            await exchange.while_connected(lambda: serve(exchange, request, answer))

    async def _collect(
        self, exchange: Exchange, request: Generation, answer: Answer
    ) -> None:
        pieces: list[list[Delta]] = [[] for _ in range(request.num_choices)]

        async def take(batch: Batch) -> None:
            for index, delta in batch:
                pieces[index].append(delta)

        try:
            await read_choices(self._engine, request, take)
        except Exception as error:
            raise refusal_of(error, request) from error
        answers = [joined(deltas) for deltas in pieces]
        usage = joint_usage([one.usage for one in answers], request.n)
        await exchange.respond(200, answer.whole(answers, usage))

    async def _stream(
        self, exchange: Exchange, request: Generation, answer: Answer
    ) -> None:
        events = EventStream(exchange, request, answer)
        try:
            await read_choices(self._engine, request, events.take)
        except ClientGone:
            raise
        except Exception as error:
            refusal = refusal_of(error, request)
            if not exchange.started:
                raise refusal from error
            await events.fail(refusal)


def chat_answer(engine: Backend, request: Generation) -> ChatAnswer:
    """Make what shapes the answer to a chat."""
    return ChatAnswer(
        f"chatcmpl-{uuid.uuid4().hex}",
        engine.name,
        int(time.time()),
        include_usage=request.include_usage,
        token_bytes=engine.token_bytes,
        new_parser=engine.tool_parser if request.has_tools else None,
    )


def completion_answer(engine: Backend, request: Generation) -> CompletionAnswer:
    """Make what shapes a text completion."""
    return CompletionAnswer(
        f"cmpl-{uuid.uuid4().hex}",
        engine.name,
        int(time.time()),
        include_usage=request.include_usage,
        token_bytes=engine.token_bytes,
        echoes=echoes(request, engine.token_bytes),
        scored=request.params.prompt_logprobs is not None,
    )


def chat_endpoint(engine: Backend, gate: Gate) -> GenerationEndpoint:
    """``POST /v1/chat/completions``."""
    return GenerationEndpoint(engine, gate, read_chat, chat_answer)


def completion_endpoint(engine: Backend, gate: Gate) -> GenerationEndpoint:
    """``POST /v1/completions``."""
    return GenerationEndpoint(engine, gate, read_completion, completion_answer)
