"""One answer as its reader sees it: text, events, and how it ended.

It begins when it is first read. Its reader lives in one task; the client feeds it from
another, and has sent nothing for an answer that nobody ever read.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Any, Protocol

from ..protocol.errors import LegatoError
from ..protocol.tools import ToolCall
from .faults import fault_of

Event = dict[str, Any]
DELTA = "response.output_text.delta"
STATUSES = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.cancelled": "cancelled",
    "response.failed": "failed",
}


class Desk(Protocol):
    """What an answer needs of its client."""

    def enter(self, answer: "Answer") -> None:
        """Send its request, in its lane's turn."""
        ...

    def order(self, answer: "Answer", kind: str, **fields: Any) -> None:
        """Send a frame about it, if the server knows of it."""
        ...

    def withdraw(self, answer: "Answer") -> None:
        """Cancel it wherever it stands."""
        ...


class Answer:
    """An answer under way.

        async for text in answer: …           pieces of text
        async for event in answer.events(): … events of the protocol
        text = await answer.text()            all of it

    A reader that leaves early or is cancelled cancels the answer; so does leaving
    ``async with answer``.

    Args:
        desk: The client.
        request: The ``response.create`` to send.
        window: Tokens that the server may send ahead of the reader; None is no limit.
    """

    def __init__(self, desk: Desk, request: Event, *, window: int | None) -> None:
        self.request = request
        self.window = window
        self.id = ""
        self.status = "waiting"
        self.response: Event = {}
        self.last_sequence = -1
        self.withdrawn = False
        self._desk = desk
        self._entered = False
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._error: LegatoError | None = None
        self._told: Event | None = None

    @property
    def lane(self) -> str:
        """The ``stream_id`` it runs in."""
        return self.request["stream_id"]

    @property
    def ended(self) -> bool:
        """No event will come any more."""
        return self.status in ("completed", "incomplete", "cancelled", "failed")

    @property
    def usage(self) -> Event:
        """What it took; empty until it ended."""
        return self.response.get("usage") or {}

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Complete calls of functions that were given as ``tools``, once it ended."""
        return tuple(
            ToolCall(item["call_id"], item["name"], item["arguments"])
            for item in self.response.get("output", ())
            if item["type"] == "function_call" and item["status"] == "completed"
        )

    # -- the reader's side -----------------------------------------------------------

    async def __aenter__(self) -> "Answer":
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def __aiter__(self) -> AsyncIterator[str]:
        """Pieces of text as they come; what waits comes in one.

        Raises:
            LegatoError: It failed or was refused.
            ConnectionLost: The server cannot be reached any more.
        """
        return self._texts()

    async def text(self) -> str:
        """Wait for the whole text; being cancelled cancels the answer.

        Raises:
            LegatoError: As when reading piece by piece.
        """
        return "".join([piece async for piece in self])

    async def events(self) -> AsyncGenerator[Event]:
        """All events of the answer, as ``docs/websocket.md`` has them.

        Raises:
            LegatoError: As when reading text.
        """
        self._enter()
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            self._leave()

    async def _texts(self) -> AsyncGenerator[str]:
        self._enter()
        try:
            while (event := await self._next()) is not None:
                if event["type"] != DELTA:
                    continue
                pieces: list[str] = [event["delta"]]
                while self._waiting and self._waiting[0]["type"] == DELTA:
                    pieces.append(self._waiting.popleft()["delta"])
                yield "".join(pieces)
        finally:
            self._leave()

    async def _next(self) -> Event | None:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._waiting.popleft()
        if event["type"] == "response.paused" and self.window:
            # All text before it was read.
            self.grant(self.window)
        return event

    def _enter(self) -> None:
        if not self._entered:
            self._entered = True
            self._desk.enter(self)

    def _leave(self) -> None:
        if not self.ended:
            self.cancel()

    # -- control ---------------------------------------------------------------------

    def cancel(self) -> None:
        """End it now; idempotent. A reader gets what came before, then the end."""
        if not (self.ended or self.withdrawn):
            self.withdrawn = True
            self._desk.withdraw(self)

    def stop(self) -> None:
        """End it now, as if ``max_output_tokens`` had been reached."""
        self._desk.order(self, "response.stop")

    def update(self, **fields: int) -> None:
        """Change ``max_output_tokens`` or ``priority`` while it runs."""
        self._desk.order(self, "response.update", **fields)

    def grant(self, tokens: int) -> None:
        """Let the server send so many tokens more."""
        self._desk.order(self, "response.credit", tokens=tokens)

    # -- the client's side -----------------------------------------------------------

    def take(self, event: Event) -> None:
        """Take an event of this answer, once: what was seen before is dropped."""
        number: int | None = event.get("sequence_number")
        if number is not None:
            if number <= self.last_sequence:
                return
            self.last_sequence = number
        kind: str = event["type"]
        if kind == "response.created":
            self.id = event["response"]["id"]
            self.status = "in_progress"
        elif kind == "error" and number is not None:
            self._told = event
        self._waiting.append(event)
        if kind in STATUSES:
            self.response = event["response"]
            if kind == "response.failed":
                self._error = fault_of(self._told or failure_of(self.response))
            self.status = STATUSES[kind]
        self._changed.set()

    def fail(self, error: LegatoError) -> None:
        """End it with an error of the connection, or of the request."""
        if not self.ended:
            self._error = error
            self.status = "failed"
            self._changed.set()

    def drop(self) -> None:
        """End it as cancelled, without the server's word."""
        if not self.ended:
            self.status = "cancelled"
            self._changed.set()


def failure_of(response: Event) -> Event:
    """The ``error`` event that a failed response implies."""
    return {"status": 500, "error": response["error"]}
