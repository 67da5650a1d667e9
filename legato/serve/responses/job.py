"""One response: a request on its way through a lane.

Owned by its lane; cancelled from outside at any stage.
"""

from ...protocol.errors import EngineClosed
from ...protocol.openai.generation import FINISH, Generation
from ...protocol.openai.response_events import ResponseEvents, error_event
from ...protocol.requests import Delta, FinishReason
from ..backend import AnswerStream, Backend
from ..choices import open_choice
from ..gate import Gate
from ..judgement import refusal_of
from ..pump import pump
from .outbox import Outbox


class Job:
    """A response to make.

    Args:
        name: The response's id.
        generation: For the engine.
        events: Its shape on the wire.
        stream_id: Its lane's name, or None.
    """

    def __init__(
        self,
        name: str,
        generation: Generation,
        events: ResponseEvents,
        stream_id: str | None,
    ) -> None:
        self.name = name
        self._generation = generation
        self._events = events
        self._stream_id = stream_id
        self._stream: AnswerStream | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """End it early, whether it waits or runs. Idempotent."""
        self._cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    async def run(self, engine: Backend, gate: Gate, outbox: Outbox) -> None:
        """Make the response; it ends in exactly one terminal event.

        Cancelling the task lets go of the answer.
        """
        if self._cancelled:
            await outbox.put(self._events.opening())
            await outbox.put(self._events.ending(FinishReason.CANCELLED, None))
            return
        request = self._generation
        begun = False
        try:
            with gate.admit():
                prompt, params = next(request.choices())
                async with open_choice(engine, request, prompt, params) as stream:
                    self._stream = stream
                    begun = True
                    await outbox.put(self._events.opening())
                    await pump(stream, self._render, outbox)
        except Exception as error:
            refusal = refusal_of(error, request)
            if begun:
                await outbox.put(self._events.failing(refusal))
            else:
                await outbox.put([error_event(refusal, self._stream_id)])

    def _render(self, delta: Delta) -> list[str]:
        frames = self._events.delta(delta)
        reason = delta.finish_reason
        if reason is not None:
            if reason not in FINISH and not self._cancelled:
                raise EngineClosed("the server ended this answer early")
            frames += self._events.ending(reason, delta.usage)
        return frames
