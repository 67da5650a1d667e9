"""One response of a Realtime session: asked for, read, told.

Owned by its task; cancelled from outside at any stage.
"""

from collections.abc import Callable

from ...protocol.errors import EngineClosed
from ...protocol.openai.generation import FINISH, Generation
from ...protocol.openai.realtime_events import EventWriter, ResponseScript
from ...protocol.requests import Delta
from ..backend import AnswerStream, Backend
from ..choices import open_choice
from ..gate import Gate
from ..judgement import refusal_of
from ..pump import pump
from ..responses.outbox import Outbox


class Response:
    """A response to make.

    Args:
        name: Its id.
        generation: For the engine.
        script: Its shape on the wire.
        event_id: Of the client's event that asked for it.
        on_end: Called before its end is told, so that a client that has heard of it
            can ask for the next.
    """

    def __init__(
        self,
        name: str,
        generation: Generation,
        script: ResponseScript,
        event_id: str | None,
        *,
        on_end: Callable[["Response"], None],
    ) -> None:
        self.name = name
        self._generation = generation
        self._script = script
        self._event_id = event_id
        self._on_end = on_end
        self._stream: AnswerStream | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """End it early. Idempotent."""
        self._cancelled = True
        if self._stream is not None:
            self._stream.cancel()

    async def run(
        self, engine: Backend, gate: Gate, outbox: Outbox, writer: EventWriter
    ) -> None:
        """Make it; it ends in one ``response.done``, or was never begun: an ``error``.

        Cancelling the task lets go of the answer.
        """
        request = self._generation
        begun = False
        try:
            with gate.admit():
                prompt, params = next(request.choices())
                async with open_choice(engine, request, prompt, params) as stream:
                    self._stream = stream
                    if self._cancelled:
                        stream.cancel()
                    begun = True
                    await outbox.put(self._script.opening())
                    await pump(stream, self._render, outbox)
        except Exception as error:
            refusal = refusal_of(error, request)
            self._on_end(self)
            if begun:
                await outbox.put(self._script.failing(refusal))
            else:
                await outbox.put([writer.error(refusal, self._event_id)])

    def _render(self, delta: Delta) -> list[str]:
        frames = self._script.delta(delta)
        reason = delta.finish_reason
        if reason is not None:
            if reason not in FINISH and not self._cancelled:
                raise EngineClosed("the server ended this answer early")
            self._on_end(self)
            frames += self._script.ending(reason, delta.usage)
        return frames
