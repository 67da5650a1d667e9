"""What we add to Responses WebSocket mode: frames of the client's, events of ours.

``docs/websocket.md`` has them to the byte. All of it has one version. An event of ours
has no place in a response's numbering, and is never replayed.
"""

from typing import Any

import msgspec

from ..errors import InvalidRequest, nearest
from ..sampling import within
from .document import Wire, broken, read
from .scheduling import MAX_PRIORITY

VERSION = 1
MAX_CREDIT = 2**31 - 1
MAX_STREAM_ID = 64
# No response has a longer name; one that a client makes up is not repeated.
MAX_RESPONSE_ID = 64

encode = msgspec.json.encode


class Note(str):
    """An event outside a response's numbering."""

    __slots__ = ()


class ControlFrame(Wire, kw_only=True):
    """A frame about one response: by its id, or the one that runs in a lane.

    ``response.cancel`` and ``response.stop`` say no more.
    """

    type: str
    response_id: str | None = None
    stream_id: str | None = None
    legato: Any = None


class CreditFrame(ControlFrame, kw_only=True):
    """``response.credit``: so many more tokens may be sent."""

    tokens: int


class UpdateFrame(ControlFrame, kw_only=True):
    """``response.update``: change what it said when it was created."""

    max_output_tokens: int | None = None
    priority: int | None = None


class ResumeFrame(ControlFrame, kw_only=True):
    """``response.resume``: send what came after an event, and go on."""

    starting_after: int | None = None
    credit: int | None = None


class AuthenticateFrame(Wire, kw_only=True):
    """``session.authenticate``."""

    type: str
    api_key: str
    legato: Any = None


FRAMES: dict[str, type[ControlFrame]] = {
    "response.cancel": ControlFrame,
    "response.stop": ControlFrame,
    "response.credit": CreditFrame,
    "response.update": UpdateFrame,
    "response.resume": ResumeFrame,
}
CREATE = "response.create"
AUTHENTICATE = "session.authenticate"
KINDS = (CREATE, AUTHENTICATE, *FRAMES)


class Envelope(msgspec.Struct):
    """The part of a frame that says what it is and where it belongs."""

    type: Any = None
    stream_id: Any = None
    response_id: Any = None


def open_envelope(frame: bytes) -> Envelope:
    """Read a frame's type, lane and response; the names only if they are usable.

    Raises:
        InvalidRequest: Broken JSON, or not an object.
    """
    try:
        envelope = msgspec.json.decode(frame, type=Envelope)
    except msgspec.ValidationError:
        raise InvalidRequest("a frame must be one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(frame, error) from None
    lane, response = envelope.stream_id, envelope.response_id
    if not (isinstance(lane, str) and 0 < len(lane) <= MAX_STREAM_ID):
        envelope.stream_id = None
    if not (isinstance(response, str) and 0 < len(response) <= MAX_RESPONSE_ID):
        envelope.response_id = None
    return envelope


def check_kind(kind: object) -> str:
    """Refuse a frame of a type nobody knows.

    Raises:
        InvalidRequest: Names ``type``, and the nearest known one.
    """
    if kind is None:
        raise InvalidRequest("is required", field="type")
    if not isinstance(kind, str):
        raise InvalidRequest("must be a string", field="type")
    if kind not in KINDS:
        near = nearest(kind, KINDS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InvalidRequest(f"unknown event type {kind!r}{hint}", field="type")
    return kind


def read_control(kind: str, frame: bytes) -> ControlFrame:
    """Read a frame about a response.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, FRAMES[kind])
    check_version(request.legato)
    check_stream_id(request.stream_id)
    if isinstance(request, CreditFrame):
        within(request.tokens, "tokens", 1, MAX_CREDIT)
    elif isinstance(request, UpdateFrame):
        _check_update(request)
    elif isinstance(request, ResumeFrame):
        if request.response_id is None:
            raise InvalidRequest("is required", field="response_id")
        if request.starting_after is not None:
            within(request.starting_after, "starting_after", -1, MAX_CREDIT)
        if request.credit is not None:
            within(request.credit, "credit", 0, MAX_CREDIT)
    return request


def _check_update(request: UpdateFrame) -> None:
    if request.max_output_tokens is None and request.priority is None:
        raise InvalidRequest("this or priority is required", field="max_output_tokens")
    if request.max_output_tokens is not None:
        within(request.max_output_tokens, "max_output_tokens", 1, MAX_CREDIT)
    if request.priority is not None:
        within(request.priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)


def read_authenticate(frame: bytes) -> str:
    """Read a ``session.authenticate``; return the key.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, AuthenticateFrame)
    check_version(request.legato)
    return request.api_key


def check_version(version: object) -> None:
    """Refuse a version of these extensions that is not spoken here.

    Raises:
        InvalidRequest: Names ``legato``.
    """
    if version is not None and (version != VERSION or isinstance(version, bool)):
        error = InvalidRequest(f"only {VERSION} is spoken here", field="legato")
        error.code = "unsupported_version"
        raise error


def check_stream_id(stream_id: str | None) -> None:
    """Refuse a lane's name that is empty or long.

    Raises:
        InvalidRequest: Names ``stream_id``.
    """
    if stream_id is not None and not 0 < len(stream_id) <= MAX_STREAM_ID:
        raise InvalidRequest(
            f"must have 1 to {MAX_STREAM_ID} characters, got {len(stream_id)}",
            field="stream_id",
        )


def note(kind: str, stream_id: str | None = None, /, **fields: Any) -> Note:
    """Make an event of ours; fields that are None are left out."""
    said = {name: value for name, value in fields.items() if value is not None}
    lane = {} if stream_id is None else {"stream_id": stream_id}
    return Note(encode({"type": kind, "legato": VERSION, **said, **lane}).decode())
