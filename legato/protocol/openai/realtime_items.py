"""Items of a Realtime conversation: messages of text, read and shown.

Audio, images and tool calls are known by name, and refused by it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..requests import ChatMessage
from .document import Wire, convert, refuse_unsupported
from .messages import check_parts

MAX_ITEM_ID = 64
# What each role's parts of text are called.
PART_TYPES = {"system": "input_text", "user": "input_text", "assistant": "output_text"}


class PartFields(Wire, kw_only=True):
    """A part of an item's content. The fields after ``text`` belong to other kinds."""

    type: str
    text: str | None = None
    audio: Any = None
    transcript: Any = None
    image_url: Any = None
    detail: Any = None


class ItemFields(Wire, kw_only=True):
    """An item as a client writes it."""

    role: str
    content: list[PartFields]
    type: str = "message"
    id: str | None = None
    object: str | None = None
    status: str | None = None


class Reference(Wire, kw_only=True):
    """An item of the conversation, named in a response's ``input``."""

    type: str
    id: str


PART_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "transcript": (),
    "image_url": (),
    "detail": (),
}


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A message.

    Args:
        id: Its name in the conversation; "" where it has none.
        role: ``system``, ``user`` or ``assistant``.
        texts: Of its parts.
        status: ``in_progress``, ``completed`` or ``incomplete``.
    """

    id: str
    role: str
    texts: tuple[str, ...]
    status: str = "completed"

    @property
    def num_characters(self) -> int:
        """Of all its texts."""
        return sum(map(len, self.texts))

    def turn(self) -> ChatMessage:
        """What the model reads of it."""
        return ChatMessage(self.role, "".join(self.texts))

    def show(self) -> dict[str, Any]:
        """The item as clients read it."""
        kind = PART_TYPES[self.role]
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": self.role,
            "content": [{"type": kind, "text": text} for text in self.texts],
        }


def read_item(fields: Mapping[str, Any], where: str) -> Item:
    """Read an item.

    Args:
        fields: The item.
        where: Where it stands in the frame.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    kind = fields.get("type")
    if kind is None:
        raise InvalidRequest("is required", field=f"{where}.type")
    if kind != "message":
        raise InvalidRequest(
            f"only items of type 'message' are supported, got {kind!r}",
            field=f"{where}.type",
        )
    check_parts([fields.get("content")], f"{where}.content")
    item = convert(fields, ItemFields, where)
    if item.role not in PART_TYPES:
        known = ", ".join(PART_TYPES)
        raise InvalidRequest(
            f"unknown role {item.role!r}; known are {known}", field=f"{where}.role"
        )
    if item.id is not None and not 0 < len(item.id) <= MAX_ITEM_ID:
        raise InvalidRequest(
            f"must have 1 to {MAX_ITEM_ID} characters, got {len(item.id)}",
            field=f"{where}.id",
        )
    texts = tuple(
        read_part(part, PART_TYPES[item.role], f"{where}.content[{number}]")
        for number, part in enumerate(item.content)
    )
    return Item(id=item.id or "", role=item.role, texts=texts)


def read_part(part: PartFields, kind: str, where: str) -> str:
    """Read a part of text.

    Raises:
        InvalidRequest: It is something else, or has no text.
    """
    if part.type != kind:
        raise InvalidRequest(
            f"only parts of type {kind!r} can be read here, got {part.type!r}",
            field=f"{where}.type",
        )
    refuse_unsupported(part, PART_NEUTRAL, f"{where}.")
    if part.text is None:
        raise InvalidRequest("is required", field=f"{where}.text")
    return part.text
