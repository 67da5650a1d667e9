"""The Realtime API, text alone: what a client's frames are."""

from typing import Any

import msgspec

from ..errors import InvalidRequest, nearest
from .document import Wire, broken, read

KINDS = (
    "session.update",
    "conversation.item.create",
    "conversation.item.retrieve",
    "conversation.item.delete",
    "response.create",
    "response.cancel",
)
REFUSED = {
    "conversation.item.truncate": "only audio is truncated; delete the item instead",
    "input_audio_buffer.append": "audio is not supported",
    "input_audio_buffer.clear": "audio is not supported",
    "input_audio_buffer.commit": "audio is not supported",
    "output_audio_buffer.clear": "audio is not supported",
}
"""Events of the specification that mean nothing without audio."""


class Envelope(msgspec.Struct):
    """The part of a frame that says what it is, and its name in an error."""

    type: Any = None
    event_id: Any = None


class SessionUpdate(Wire, kw_only=True):
    """``session.update``."""

    type: str
    session: dict[str, Any]
    event_id: str | None = None


class ItemCreate(Wire, kw_only=True):
    """``conversation.item.create``."""

    type: str
    item: dict[str, Any]
    previous_item_id: str | None = None
    event_id: str | None = None


class ItemFrame(Wire, kw_only=True):
    """``conversation.item.retrieve`` and ``conversation.item.delete``."""

    type: str
    item_id: str
    event_id: str | None = None


class ResponseCreate(Wire, kw_only=True):
    """``response.create``."""

    type: str
    response: dict[str, Any] | None = None
    event_id: str | None = None


class ResponseCancel(Wire, kw_only=True):
    """``response.cancel``."""

    type: str
    response_id: str | None = None
    event_id: str | None = None


def open_envelope(frame: bytes) -> Envelope:
    """Read a frame's type and name; the name only if it is usable.

    Raises:
        InvalidRequest: Broken JSON, or not an object.
    """
    try:
        envelope = msgspec.json.decode(frame, type=Envelope)
    except msgspec.ValidationError:
        raise InvalidRequest("an event must be one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(frame, error) from None
    if not isinstance(envelope.event_id, str):
        envelope.event_id = None
    return envelope


def check_kind(kind: object) -> str:
    """Refuse an event nobody knows, and one that needs audio.

    Raises:
        InvalidRequest: Names ``type``, and the nearest known one.
    """
    if not isinstance(kind, str):
        raise InvalidRequest(
            "is required" if kind is None else "must be a string", field="type"
        )
    if kind in REFUSED:
        raise InvalidRequest(f"{kind!r}: {REFUSED[kind]}", field="type")
    if kind not in KINDS:
        near = nearest(kind, KINDS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InvalidRequest(f"unknown event type {kind!r}{hint}", field="type")
    return kind


def read_session(frame: bytes) -> dict[str, Any]:
    """Read what a ``session.update`` changes.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    return read(frame, SessionUpdate).session


def read_response(frame: bytes) -> dict[str, Any]:
    """Read what a ``response.create`` says of its response.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    return read(frame, ResponseCreate).response or {}


def read_item_create(frame: bytes) -> ItemCreate:
    """Read a ``conversation.item.create``; the item itself is not looked at.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    return read(frame, ItemCreate)


def read_item_id(frame: bytes) -> str:
    """Read which item a retrieve or delete means.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    return read(frame, ItemFrame).item_id


def read_cancel(frame: bytes) -> str | None:
    """Read which response a ``response.cancel`` means; None is the conversation's.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    return read(frame, ResponseCancel).response_id
