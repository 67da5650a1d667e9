"""The answers to one request, read side by side.

A single answer is read by the request's own task. Several have one reader each, for
the whole of the answer, and one mailbox joins them: a client that reads slowly fills
it, the readers wait, their streams merge deltas, and the engine pauses the sequences.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import anyio

from ..mailbox import Address, Mailbox, MailboxClosed
from ..protocol.errors import EngineClosed
from ..protocol.openai.generation import FINISH, Generation
from ..protocol.requests import Delta, FinishReason, Prompt, Usage
from ..protocol.sampling import SamplingParams
from .backend import AnswerStream, Backend

Batch = Sequence[tuple[int, Delta]]
"""Deltas that came together, each with the index of its choice."""

Take = Callable[[Batch], Awaitable[None]]

Piece = tuple[int, Delta | Exception]


async def read_choices(engine: Backend, request: Generation, take: Take) -> None:
    """Open every answer to a request and read all to their ends.

    However this ends, cancelled or not, every answer has been let go of.

    Args:
        engine: Answers.
        request: What to ask it.
        take: Called with what is new; while it works, nothing more is pulled than a
            delta for each choice.

    Raises:
        LegatoError: The first failure of any answer, which ends the others.
        EngineClosed: The server cut an answer: over HTTP a client cannot cancel and
            stay.
        Exception: Whatever ``take`` raises.
    """
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(
                open_choice(engine, request, prompt, params)
            )
            for prompt, params in request.choices()
        ]
        if request.silent:
            take = hushed(take)
        if len(streams) == 1:
            await follow(streams[0], lambda delta: take([(0, delta)]))
        else:
            await merge(streams, take)


def hushed(take: Take) -> Take:
    """Take nothing of what answers say: they are to be cut before their first token."""

    async def pass_on(batch: Batch) -> None:
        await take([(index, hush(delta)) for index, delta in batch])

    return pass_on


def hush(delta: Delta) -> Delta:
    """What is left of a delta whose answer is empty."""
    reason, usage = delta.finish_reason, delta.usage
    if reason in FINISH:
        reason = FinishReason.LENGTH
    if usage is not None:
        usage = Usage(usage.prompt_tokens, 0, usage.cached_tokens)
    return Delta("", (), (), reason, usage, delta.prompt)


def open_choice(
    engine: Backend, request: Generation, prompt: Prompt, params: SamplingParams
) -> AbstractAsyncContextManager[AnswerStream]:
    """Open one answer on the request's terms."""
    terms = request.terms
    return engine.stream(
        prompt,
        params,
        priority=terms.priority,
        tenant=request.tenant,
        ttft_deadline_s=terms.ttft_deadline_s,
        total_deadline_s=terms.total_deadline_s,
    )


async def follow(stream: AnswerStream, put: Callable[[Delta], Awaitable[None]]) -> None:
    """Pass every delta of an answer on, up to its end.

    Raises:
        LegatoError: It failed.
        EngineClosed: It was cut.
    """
    reason = None
    async for delta in stream:
        await put(delta)
        reason = delta.finish_reason
    if reason not in FINISH:
        raise EngineClosed("the server ended this answer early")


async def merge(streams: Sequence[AnswerStream], take: Take) -> None:
    """Read several answers, and take together what came together.

    Raises:
        Exception: As ``read_choices`` does.
    """
    inbox = Mailbox[Piece]("choices", len(streams))
    addresses = [inbox.address() for _ in streams]
    failed: list[Exception] = []
    async with anyio.create_task_group() as group:
        for index, stream in enumerate(streams):
            group.start_soon(relay, index, stream, addresses[index])
        try:
            await pump(inbox, take)
        except Exception as error:
            # Raised outside the group, which would wrap it.
            failed.append(error)
            group.cancel_scope.cancel()
    if failed:
        raise failed[0]


async def relay(index: int, stream: AnswerStream, address: Address[Piece]) -> None:
    """Put an answer's deltas in a mailbox, and last what it failed with, if it did."""
    try:
        await follow(stream, lambda delta: address.put((index, delta)))
    except Exception as error:
        await address.put((index, error))
    finally:
        address.close()


async def pump(inbox: Mailbox[Piece], take: Take) -> None:
    """Take what arrives, until every answer has ended.

    Raises:
        Exception: The first that arrives, after what came before it; or ``take``'s.
    """
    while True:
        try:
            pieces = await inbox.drain()
        except MailboxClosed:
            return
        batch: list[tuple[int, Delta]] = []
        failure: Exception | None = None
        for index, piece in pieces:
            if isinstance(piece, Exception):
                failure = piece
                break
            batch.append((index, piece))
        if batch:
            await take(batch)
        if failure is not None:
            raise failure
