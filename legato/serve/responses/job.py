"""One response: a request on its way through a lane, or over HTTP.

Owned by whoever runs it; cancelled, stopped, rationed and changed from outside at any
stage. It knows where its events go only as a sink.
"""

import asyncio

import msgspec

from ...protocol.errors import EngineClosed
from ...protocol.openai.create import Create
from ...protocol.openai.extensions import note
from ...protocol.openai.generation import FINISH
from ...protocol.openai.refusal import Refusal
from ...protocol.openai.response_events import ResponseEvents, error_event
from ...protocol.requests import ChatMessage, Delta, FinishReason, Usage
from ..backend import AnswerStream, Backend
from ..choices import open_choice
from ..exchange import ClientGone
from ..gate import Gate
from ..judgement import refusal_of
from ..pump import FrameSink, pump
from .recall import Recall
from .store import Stored

encode = msgspec.json.encode


class Job:
    """A response to make.

    ``refusal`` says why it was refused or has failed; ``begun`` whether there ever was
    a response; ``settled`` is set once that is known, ``finished`` at its end.

    Args:
        name: The response's id.
        create: What was asked for.
        events: Its shape on the wire.
        recall: What it may go on from, and where it is kept.
        tenant: Whose it is, as far as keeping goes.
    """

    def __init__(
        self,
        name: str,
        create: Create,
        events: ResponseEvents,
        recall: Recall,
        tenant: str,
    ) -> None:
        self.name = name
        self.create = create
        self.events = events
        self.tenant = tenant
        self.refusal: Refusal | None = None
        self.begun = False
        self.settled = asyncio.Event()
        self.finished = asyncio.Event()
        self.stored: Stored | None = None
        self._recall = recall
        self._stream: AnswerStream | None = None
        self._credit = create.credit
        self._earlier: tuple[ChatMessage, ...] = ()
        self._num_tokens = 0
        self._said_paused = False
        self._cancelled = False
        self._stopped = False

    # -- from outside ----------------------------------------------------------

    def cancel(self) -> None:
        """End it early, whether it waits or runs. Idempotent."""
        self._cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    def stop(self) -> None:
        """End it now with what it has said, as if it had reached its limit."""
        self._stopped = True
        if self._stream is not None:
            self._stream.cancel()

    def grant(self, tokens: int) -> None:
        """Let more tokens be sent; one without a ration sends all anyway."""
        if self._credit is None:
            return
        self._said_paused = False
        if self._stream is None:
            self._credit += tokens
        else:
            self._stream.grant(tokens)

    def update(self, max_output_tokens: int | None, priority: int | None) -> None:
        """Change what it said when it was created.

        Raises:
            Refusal: It does not run, yet or any more.
        """
        if self._stream is None or self.finished.is_set():
            raise Refusal(
                409,
                "response_not_running",
                f"response {self.name!r} does not run now",
                param="response_id",
            )
        self._stream.amend(max_tokens=max_output_tokens, priority=priority)
        if max_output_tokens is not None:
            self.events.object["max_output_tokens"] = max_output_tokens

    # -- its life --------------------------------------------------------------

    async def run(self, engine: Backend, gate: Gate, sink: FrameSink) -> None:
        """Make the response; it ends in exactly one terminal event.

        Cancelling the task lets go of the answer.

        Raises:
            ClientGone: The sink's reader left.
            Refusal: The sink wants none of a response that has failed.
        """
        try:
            if self._cancelled or self._stopped:
                self._begin()
                frames = self.events.opening()
                await sink.put(frames + self._end(FinishReason.CANCELLED, None))
                return
            try:
                await self._make(engine, gate, sink)
            except ClientGone:
                raise
            except Exception as error:
                await sink.put(self._fail(error))
        finally:
            self.settled.set()
            self.finished.set()

    async def _make(self, engine: Backend, gate: Gate, sink: FrameSink) -> None:
        create = self.create
        if create.previous is not None:
            self._earlier = (await self._recall.find(create.previous)).turns
        with gate.admit(self.tenant):
            request = create.prompt(self._earlier).of_tenant(self.tenant)
            prompt, params = next(request.choices())
            async with open_choice(engine, request, prompt, params) as stream:
                if self._credit is not None:
                    stream.limit(self._credit)
                self._stream = stream
                self._begin()
                if self._cancelled or self._stopped:
                    stream.cancel()
                await sink.put([*self.events.opening(), *self._pause(stream)])
                await pump(stream, self._render, sink)

    def _begin(self) -> None:
        self.begun = True
        self.settled.set()

    def _render(self, delta: Delta) -> list[str]:
        frames = self.events.delta(delta) if self.create.generate else []
        self._num_tokens += len(delta.token_ids)
        if delta.finish_reason is not None:
            frames += self._end(delta.finish_reason, delta.usage)
        elif self._credit is not None and self._stream is not None:
            frames += self._pause(self._stream)
        return frames

    def _pause(self, stream: AnswerStream) -> list[str]:
        """Say once that the ration is used up."""
        if self._credit is None or self._said_paused or not stream.is_starved:
            return []
        self._said_paused = True
        lane, tokens = self.create.stream_id, self._num_tokens
        kind = "response.paused"
        return [note(kind, lane, response_id=self.name, output_tokens=tokens)]

    def _end(self, reason: FinishReason, usage: Usage | None) -> list[str]:
        if reason not in FINISH and not self._cancelled:
            if not self._stopped:
                raise EngineClosed("the server ended this answer early")
            reason = FinishReason.LENGTH
        if self.create.generate or usage is None or reason not in FINISH:
            frames = self.events.ending(reason, usage)
        else:
            frames = self.events.warmed(usage)
        # Before its end is told: who has heard of it may go on from it at once.
        self._keep(self.events.turns)
        return frames

    def _fail(self, error: Exception) -> list[str]:
        create = self.create
        refusal = self.refusal = refusal_of(error, create.generation)
        if create.previous is not None:
            self._recall.forget(create.previous)
        if not self.begun:
            return [error_event(refusal, create.stream_id)]
        frames = self.events.failing(refusal)
        if create.store:
            self.stored = self._record(())
            self._recall.put(self.stored)
        return frames

    def _keep(self, answer: tuple[ChatMessage, ...]) -> None:
        create = self.create
        self.stored = self._record(answer)
        self._recall.keep(create.stream_id, self.stored, for_all=create.store)

    def _record(self, answer: tuple[ChatMessage, ...]) -> Stored:
        create = self.create
        return Stored(
            name=self.name,
            tenant=self.tenant,
            response=encode(self.events.object),
            items=encode(create.items),
            turns=(*self._earlier, *create.turns, *answer),
        )
