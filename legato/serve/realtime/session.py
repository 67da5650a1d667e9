"""One Realtime session: its settings, its conversation, its responses.

At most one response at a time writes to the conversation; others run beside it.
"""

import uuid
from collections.abc import Callable

import msgspec
from anyio.abc import TaskGroup

from ...protocol.openai.generation import Generation
from ...protocol.openai.realtime import (
    check_kind,
    open_envelope,
    read_cancel,
    read_item_create,
    read_item_id,
)
from ...protocol.openai.realtime_conversation import Conversation
from ...protocol.openai.realtime_events import EventWriter, ResponseScript
from ...protocol.openai.realtime_items import read_item
from ...protocol.openai.realtime_settings import (
    Order,
    Settings,
    read_order,
    session_object,
    updated_session,
)
from ...protocol.openai.refusal import LOAD, Refusal
from ..backend import Backend
from ..connection import Connection
from ..gate import Gate
from ..judgement import check_model, refusal_of
from ..settings import ServeSettings
from ..socket import Socket
from .response import Response

NAMES = {
    "max_tokens": "response.max_output_tokens",
    "prompt": "response.input",
    "messages": "response.input",
}
"""The engine's field names to those of ``response.create``."""

Handler = Callable[[bytes, TaskGroup], list[str]]


class Session:
    """A session over one connection.

    Args:
        socket: The client's, accepted.
        engine: Answers.
        gate: Lets responses in.
        settings: Limits.
        tenant: Whose API key it carries; "" where none is needed.
    """

    def __init__(
        self,
        socket: Socket,
        engine: Backend,
        gate: Gate,
        settings: ServeSettings,
        *,
        tenant: str,
    ) -> None:
        self._connection = Connection(socket, settings)
        self._engine = engine
        self._gate = gate
        self._max_running = settings.max_lanes
        self._tenant = tenant
        self._name = named("sess")
        self._writer = EventWriter(self._name)
        self._settings: Settings = {}
        self._conversation = Conversation(named("conv"))
        self._running: dict[str, Response] = {}
        self._active: Response | None = None
        self._event_id: str | None = None
        self._handlers: dict[str, Handler] = {
            "session.update": self._update,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._respond,
            "response.cancel": self._cancel,
        }

    async def run(self) -> None:
        """Serve the session until either side ends it."""
        await self._connection.outbox.put([self._tell_session("session.created")])
        await self._connection.run(self._take)

    async def _take(self, frame: str | bytes, group: TaskGroup) -> None:
        self._event_id = None
        try:
            if isinstance(frame, bytes):
                raise Refusal(
                    400, "binary_frame", "this socket speaks JSON in text messages"
                )
            data = frame.encode()
            envelope = open_envelope(data)
            self._event_id = envelope.event_id
            replies = self._handlers[check_kind(envelope.type)](data, group)
        except Exception as error:
            replies = [self._writer.error(refusal_of(error), self._event_id)]
        await self._connection.outbox.put(replies)

    def _tell_session(self, kind: str) -> str:
        session = session_object(self._name, self._engine.name, self._settings)
        return self._writer.event(kind, session=session)

    def _update(self, data: bytes, group: TaskGroup) -> list[str]:
        with self._gate.admit():
            defaults = self._engine.default_params()
        settings = updated_session(data, self._settings, defaults)
        check_model(settings.get("model") or "", self._engine.name)
        self._settings = settings
        return [self._tell_session("session.updated")]

    def _create_item(self, data: bytes, group: TaskGroup) -> list[str]:
        request = read_item_create(data)
        item = read_item(request.item, "item")
        if not item.id:
            item = msgspec.structs.replace(item, id=named("item"))
        previous = self._conversation.insert(item, request.previous_item_id)
        place = {"previous_item_id": previous, "item": item.show()}
        return [
            self._writer.event("conversation.item.added", **place),
            self._writer.event("conversation.item.done", **place),
        ]

    def _retrieve_item(self, data: bytes, group: TaskGroup) -> list[str]:
        item = self._conversation.get(read_item_id(data))
        return [self._writer.event("conversation.item.retrieved", item=item.show())]

    def _delete_item(self, data: bytes, group: TaskGroup) -> list[str]:
        name = read_item_id(data)
        self._conversation.delete(name)
        return [self._writer.event("conversation.item.deleted", item_id=name)]

    def _respond(self, data: bytes, group: TaskGroup) -> list[str]:
        with self._gate.admit():
            order = read_order(data, self._settings, self._engine.default_params())
        self._check_room(order)
        turns = self._conversation.turns(order.instructions, order.input)
        generation = Generation(
            prompts=(turns,),
            params=order.params,
            terms=order.terms,
            tenant=self._tenant,
            stream=True,
            names=NAMES,
        )
        name = named("resp")
        home = self._conversation if order.writes else None
        script = ResponseScript(self._writer, name, order, home)
        response = Response(
            name, generation, script, self._event_id, on_end=self._forget
        )
        self._running[name] = response
        if order.writes:
            self._active = response
        group.start_soon(self._run, response)
        return []

    def _check_room(self, order: Order) -> None:
        if order.writes and self._active is not None:
            raise Refusal(
                400,
                "conversation_already_has_active_response",
                f"the response {self._active.name!r} is still writing to the "
                "conversation; wait for its end or cancel it",
            )
        if len(self._running) >= self._max_running:
            raise Refusal(
                429,
                "too_many_responses",
                f"{self._max_running} responses are under way on this socket, the most "
                "there may be",
                kind=LOAD,
            )

    def _forget(self, response: Response) -> None:
        self._running.pop(response.name, None)
        if self._active is response:
            self._active = None

    async def _run(self, response: Response) -> None:
        outbox = self._connection.outbox
        await response.run(self._engine, self._gate, outbox, self._writer)

    def _cancel(self, data: bytes, group: TaskGroup) -> list[str]:
        name = read_cancel(data)
        response = self._active if name is None else self._running.get(name)
        if response is None:
            raise Refusal(
                400,
                "response_cancel_not_active",
                "there is no such response under way",
                param="response_id" if name else None,
            )
        response.cancel()
        return []


def named(kind: str) -> str:
    """A new id."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"
