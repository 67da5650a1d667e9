"""The Realtime API, text alone: what the server says, in order.

Text travels once, as deltas; the ``done`` events carry it whole, as the public
specification says. Exactly one ``response.done`` ends a response.
"""

import itertools
from typing import Any

import msgspec

from ..requests import Delta, FinishReason, Usage
from .document import encode
from .realtime_conversation import Conversation
from .realtime_items import Item
from .realtime_settings import Order
from .refusal import Refusal

STATUS = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "incomplete",
    FinishReason.CANCELLED: "cancelled",
}
REASONS = {"incomplete": "max_output_tokens", "cancelled": "client_cancelled"}


class EventWriter:
    """Writes one session's events, each with an id of its own.

    Args:
        session: The session's id.
    """

    def __init__(self, session: str) -> None:
        self._prefix = f"event_{session.removeprefix('sess_')}_"
        self._numbers = itertools.count()

    def event(self, kind: str, /, **fields: Any) -> str:
        """One event."""
        return encode({"type": kind, "event_id": self.next_id(), **fields}).decode()

    def next_id(self) -> str:
        """The next event's id; nothing in it needs escaping."""
        return f"{self._prefix}{next(self._numbers)}"

    def error(self, refusal: Refusal, event_id: str | None) -> str:
        """The error that an event of the client's met; the session lives on."""
        return self.event("error", error={**refusal.fields(), "event_id": event_id})


class ResponseScript:
    """One response on its way out; owned by the task that runs it.

    Args:
        writer: The session's.
        name: The response's id.
        order: What was asked.
        conversation: Where its item belongs, or None.
    """

    def __init__(
        self,
        writer: EventWriter,
        name: str,
        order: Order,
        conversation: Conversation | None,
    ) -> None:
        self._writer = writer
        self._conversation = conversation
        self._previous: str | None = None
        self._texts: list[str] = []
        self._open = False
        self._item = Item(
            id=f"item_{name.removeprefix('resp_')}",
            role="assistant",
            texts=(),
            status="in_progress",
        )
        home = conversation.name if conversation else None
        self._object = response_object(name, order, home)
        self._place = {
            "response_id": name,
            "item_id": self._item.id,
            "output_index": 0,
            "content_index": 0,
        }
        head = {"type": "response.output_text.delta", **self._place}
        # What repeats with every token is encoded once.
        self._prefix = encode(head).decode()[:-1] + ',"delta":'

    def opening(self) -> list[str]:
        """The response exists."""
        return [self._writer.event("response.created", response=self._object)]

    def delta(self, delta: Delta) -> list[str]:
        """New text; nothing if the delta shows nothing."""
        if not delta.text:
            return []
        frames = [] if self._open else self._open_item()
        self._texts.append(delta.text)
        text = encode(delta.text).decode()
        event_id = self._writer.next_id()
        frames.append(f'{self._prefix}{text},"event_id":"{event_id}"}}')
        return frames

    def ending(self, reason: FinishReason, usage: Usage | None) -> list[str]:
        """The end of an answer that ran its course, or that was cancelled."""
        status = STATUS[reason]
        frames: list[str] = []
        if not self._open and status != "cancelled":
            frames += self._open_item()
        frames += self._close_item("completed" if status == "completed" else "")
        details = {"type": status}
        if status in REASONS:
            details["reason"] = REASONS[status]
        return [*frames, self._done(status, details, usage)]

    def failing(self, refusal: Refusal) -> list[str]:
        """The end of an answer that an error cut."""
        error = {"type": refusal.kind, "code": refusal.code, "message": refusal.message}
        frames = self._close_item("")
        return [*frames, self._done("failed", {"type": "failed", "error": error}, None)]

    def _done(self, status: str, details: dict[str, Any], usage: Usage | None) -> str:
        self._object |= {"status": status, "status_details": details}
        if usage is not None:
            self._object["usage"] = realtime_usage(usage)
        return self._writer.event("response.done", response=self._object)

    def _open_item(self) -> list[str]:
        if self._conversation is not None:
            self._previous = self._conversation.insert(self._item)
        self._open = True
        frames = [self._item_event("response.output_item.added")]
        frames += self._conversation_event("conversation.item.added")
        frames.append(
            self._writer.event(
                "response.content_part.added",
                **self._place,
                part={"type": "text", "text": ""},
            )
        )
        return frames

    def _close_item(self, status: str) -> list[str]:
        """Settle the item, if there is one; "" is one that was cut."""
        if not self._open:
            return []
        text = "".join(self._texts)
        self._item = msgspec.structs.replace(
            self._item, texts=(text,), status=status or "incomplete"
        )
        if self._conversation is not None:
            self._conversation.settle(self._item)
        self._object["output"] = [self._item.show()]
        write, place = self._writer.event, self._place
        part = {"type": "text", "text": text}
        return [
            write("response.output_text.done", **place, text=text),
            write("response.content_part.done", **place, part=part),
            self._item_event("response.output_item.done"),
            *self._conversation_event("conversation.item.done"),
        ]

    def _item_event(self, kind: str) -> str:
        response = self._place["response_id"]
        item = self._item.show()
        return self._writer.event(kind, response_id=response, output_index=0, item=item)

    def _conversation_event(self, kind: str) -> list[str]:
        if self._conversation is None:
            return []
        item = self._item.show()
        return [self._writer.event(kind, previous_item_id=self._previous, item=item)]


def response_object(
    name: str, order: Order, conversation: str | None
) -> dict[str, Any]:
    """A response that has just begun."""
    return {
        "object": "realtime.response",
        "id": name,
        "status": "in_progress",
        "status_details": None,
        "output": [],
        "conversation_id": conversation,
        "output_modalities": ["text"],
        "max_output_tokens": order.max_output_tokens,
        "metadata": order.metadata,
        "usage": None,
    }


def realtime_usage(usage: Usage) -> dict[str, Any]:
    """What a response took."""
    silent = {"audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.prompt_tokens,
            **silent,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": {"text_tokens": usage.cached_tokens, **silent},
        },
        "output_token_details": {
            "text_tokens": usage.output_tokens,
            "audio_tokens": 0,
        },
    }
