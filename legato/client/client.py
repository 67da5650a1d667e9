"""The client: one connection after another, and the answers that outlive them."""

import logging
from itertools import count
from types import TracebackType
from typing import Any

import anyio

from ..protocol.errors import ConnectionLost, LegatoError
from .answer import STATUSES, Answer, Event
from .conversation import Conversation
from .faults import fault_of
from .lanes import Lanes
from .link import Link

log = logging.getLogger("legato.client")

# The server waits so long for a follower to come back; so do we for the server.
PATIENCE_S = 60.0
DIAL_S = 10.0
# The connection is at fault, not the answer: another one resumes it.
OF_THE_CONNECTION = ("websocket_connection_limit_reached",)


class Client:
    """Answers over a WebSocket, resumed on another when it drops.

    Args:
        url: ``ws://host:port``; the path may be left out.
        api_key: The server's key, or "".
        model: Asked for by every request; None takes the server's.
        patience_s: Longest time to try to reach the server again; past it, open
            answers end with ``ConnectionLost``.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str = "",
        model: str | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._model = model
        self._lanes = Lanes()
        self._numbers = count(1)
        self._closed = False
        self._link = Link(url, api_key, self, patience_s=patience_s, dial_s=DIAL_S)

    async def __aenter__(self) -> "Client":
        """Connect.

        Raises:
            NotAdmitted: The key or the origin is not let in.
            InvalidRequest: There is no such server at this URL.
            ConnectionLost: It cannot be reached.
        """
        await self._link.open()
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._link.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; answers still open end with ``ConnectionLost``."""
        self._closed = True
        self.lost(ConnectionLost("the client was closed"))
        self._group.cancel_scope.cancel()
        # What was raised inside goes on as it is; the group would wrap it.
        await self._group.__aexit__(None, None, None)

    def stream(
        self,
        input: str | list[dict[str, Any]],  # the protocol's own name
        *,
        lane: str | None = None,
        credit: int | None = None,
        resumable: bool = True,
        **options: Any,
    ) -> Answer:
        """Ask; the request is sent when the answer is first read.

        Args:
            input: Text, or items of the Responses API.
            lane: Answers in one lane come one after another; None is a lane of its own.
            credit: Tokens that the server may send ahead of the reader: past it, it
                pauses. None is no limit.
            resumable: Outlive the connection. If not, a drop ends the answer with
                ``ConnectionLost``.
            options: Fields of ``response.create``: ``instructions``,
                ``max_output_tokens``, ``temperature``, ``tools``,
                ``previous_response_id``, …
        """
        request: Event = {"type": "response.create", "input": input, **options}
        request["stream_id"] = lane or f"legato-{next(self._numbers)}"
        request["resumable"] = resumable
        if self._model is not None:
            request.setdefault("model", self._model)
        if credit is not None:
            request["credit"] = credit
        return Answer(self, request, window=credit)

    def conversation(
        self, *, instructions: str | None = None, **options: Any
    ) -> Conversation:
        """Begin a conversation whose history the server holds.

        Args:
            instructions: Sent with every turn.
            options: Of every turn, as for ``stream``.
        """
        return Conversation(self, instructions, options)

    # -- what answers need -----------------------------------------------------------

    def enter(self, answer: Answer) -> None:
        """Send an answer's request, in its lane's turn."""
        if self._closed:
            answer.fail(ConnectionLost("the client was closed"))
        elif self._lanes.put(answer):
            self._link.send(answer.request)

    def order(self, answer: Answer, kind: str, **fields: Any) -> None:
        """Send a frame about a response that runs."""
        if answer.id and not answer.ended:
            self._link.send({"type": kind, "response_id": answer.id, **fields})

    def withdraw(self, answer: Answer) -> None:
        """Cancel an answer: by id, by lane before it has one, or only here."""
        unheard = not (answer.id or self._link.connected)
        if unheard or not self._lanes.is_head(answer):
            answer.drop()
            self._end(answer)
        elif answer.id:
            self._link.send({"type": "response.cancel", "response_id": answer.id})
        else:
            self._link.send({"type": "response.cancel", "stream_id": answer.lane})

    # -- what the link needs ---------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Some answer is not over."""
        return bool(self._lanes)

    def greet(self) -> list[Event]:
        """Take up on a new connection what the last one left."""
        frames: list[Event] = []
        for answer in self._lanes.heads():
            if not answer.id:
                # Never heard of: whatever became of the request, this one counts.
                frames.append(answer.request)
                continue
            resume: Event = {"type": "response.resume", "response_id": answer.id}
            resume["starting_after"] = answer.last_sequence
            if answer.window:
                # A grant under way may be lost with the connection.
                resume["credit"] = answer.window
            frames.append(resume)
            if answer.withdrawn:
                cancel = {"type": "response.cancel", "response_id": answer.id}
                frames.append(cancel)
        return frames

    def take(self, event: Event) -> None:
        """Hand an event to its answer."""
        response_id = event.get("response_id")
        answer = self._lanes.of(event.get("stream_id"), response_id)
        kind: str = event["type"]
        if kind == "error" and "sequence_number" not in event:
            self._take_error(event, answer)
            return
        if answer is None:
            return
        answer.take(event)
        if kind == "response.created":
            self._lanes.know(answer)
        elif kind in STATUSES:
            self._end(answer)

    def _take_error(self, event: Event, answer: Answer | None) -> None:
        if event["error"].get("code") in OF_THE_CONNECTION:
            self._link.hang_up()
        elif answer is None and event.get("status") in (401, 403):
            # The next connection would fare no better.
            self.lost(fault_of(event))
        elif answer is None:
            log.warning("the server says: %s", event["error"].get("message"))
        elif not answer.id or event["error"].get("code") in LOST_CODES:
            answer.fail(fault_of(event))
            self._end(answer)
        else:
            # About one of our orders, such as an update that came too late.
            answer.take(event)

    def dropped(self) -> None:
        """Let go of what cannot be resumed, or needs not be."""
        for answer in self._lanes:
            if answer.withdrawn and not answer.id:
                answer.drop()
            elif answer.id and not answer.request["resumable"]:
                answer.fail(ConnectionLost("the connection dropped in mid-answer"))
            if answer.ended:
                self._end(answer, goes_on=False)

    def lost(self, error: LegatoError) -> None:
        """End every answer."""
        for answer in self._lanes:
            answer.fail(error)
            self._end(answer, goes_on=False)

    def _end(self, answer: Answer, *, goes_on: bool = True) -> None:
        following = self._lanes.remove(answer)
        if following is not None and goes_on:
            self._link.send(following.request)


# An answer that cannot be followed any more.
LOST_CODES = ("response_not_found", "replay_unavailable")
