"""The AI SDK's chat protocol: what its transports send.

A chat is a list of UI messages, whose parts are text and much else. Text is what the
model reads; parts that only the page needs are passed over, as the SDK itself does; a
part that the model would have to read and cannot is refused by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from .errors import InvalidRequest
from .openai.document import Wire, broken, encode, read
from .openai.generation import Generation
from .openai.messages import check_number, check_parts
from .openai.sampling import sampling_params
from .openai.scheduling import SchedulingFields, read_terms
from .requests import ChatMessage

MAX_ID = 256
ROLES = ("system", "user", "assistant")
# What the page draws and the model never reads.
PASSED_OVER = ("step-start", "source-url", "source-document")
NAMES = {
    "max_tokens": "max_output_tokens",
    "prompt": "messages",
}
"""The engine's field names to those of this protocol."""

Trigger = Literal["submit-message", "regenerate-message"]


class UiPart(msgspec.Struct):
    """A part of a message; fields of the page's own are not looked at."""

    type: str
    text: str | None = None


class UiMessage(msgspec.Struct):
    """A message as the page keeps it."""

    role: str
    parts: list[UiPart]


class Wishes(SchedulingFields, kw_only=True):
    """What an application may add to a request, as the transport's ``body``."""

    model: str | None = None
    system: str | None = None
    max_output_tokens: int | None = None


class PostBody(Wishes, kw_only=True):
    """The body that the SDK's HTTP transport posts; camel case is the SDK's."""

    messages: list[UiMessage]
    id: str | None = None
    trigger: Trigger | None = None
    messageId: str | None = None  # noqa: N815


class SendFrame(Wire, kw_only=True):
    """``send`` of the WebSocket transport."""

    type: str
    requestId: str  # noqa: N815
    id: str
    messages: list[UiMessage]
    trigger: Trigger
    messageId: str | None = None  # noqa: N815
    headers: dict[str, str] | None = None
    body: dict[str, Any] | None = None
    metadata: Any = None


class ResumeFrame(Wire, kw_only=True):
    """``resume`` of the WebSocket transport."""

    type: str
    requestId: str  # noqa: N815
    id: str
    lastSequence: int | None = None  # noqa: N815
    headers: dict[str, str] | None = None
    body: dict[str, Any] | None = None
    metadata: Any = None


class Envelope(msgspec.Struct):
    """The part of a frame that says what it is, and which request it belongs to."""

    type: Any = None
    requestId: Any = None  # noqa: N815


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to take.

    Args:
        chat: The chat's id, or "".
        generation: For the engine.
    """

    chat: str
    generation: Generation


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to go on reading.

    Args:
        chat: The chat's id.
        start: The first sequence number that is wanted.
    """

    chat: str
    start: int


def read_post(body: bytes, defaults: Mapping[str, float]) -> Ask:
    """Read a posted body.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, PostBody)
    generation = _generation(request, request.messages, defaults)
    return Ask(chat=check_id(request.id or "", "id"), generation=generation)


def open_envelope(frame: bytes) -> Envelope:
    """Read a frame's type and request.

    Raises:
        InvalidRequest: Broken JSON, not an object, or a request that cannot be named.
    """
    try:
        envelope = msgspec.json.decode(frame, type=Envelope)
    except msgspec.ValidationError:
        raise InvalidRequest("a frame must be one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(frame, error) from None
    if not isinstance(envelope.requestId, str):
        raise InvalidRequest("must be a string", field="requestId")
    check_id(envelope.requestId, "requestId")
    return envelope


def check_kind(kind: object) -> str:
    """Refuse a frame that nobody knows.

    Raises:
        InvalidRequest: Names ``type``.
    """
    if not isinstance(kind, str) or kind not in ("send", "resume"):
        raise InvalidRequest(
            f"unknown frame {kind!r}; known are send, resume and abort", field="type"
        )
    return kind


def read_send(frame: bytes, defaults: Mapping[str, float]) -> Ask:
    """Read a ``send``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, SendFrame)
    try:
        wishes = read(encode(request.body or {}), Wishes)
    except InvalidRequest as error:
        error.field = f"body.{error.field}" if error.field else "body"
        raise
    generation = _generation(wishes, request.messages, defaults)
    return Ask(chat=check_id(request.id, "id"), generation=generation)


def read_resume(frame: bytes) -> Resume:
    """Read a ``resume``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, ResumeFrame)
    last = -1 if request.lastSequence is None else request.lastSequence
    if last < -1:
        raise InvalidRequest("must not be negative", field="lastSequence")
    return Resume(chat=check_id(request.id, "id"), start=last + 1)


def check_id(name: str, field: str) -> str:
    """Refuse a name that is too long to keep.

    Raises:
        InvalidRequest: With the bound.
    """
    if len(name) > MAX_ID:
        raise InvalidRequest(
            f"must have at most {MAX_ID} characters, got {len(name)}", field=field
        )
    return name


def _generation(
    wishes: Wishes, messages: Sequence[UiMessage], defaults: Mapping[str, float]
) -> Generation:
    turns = [ChatMessage("system", wishes.system)] if wishes.system else []
    turns += ui_turns(messages)
    params = sampling_params(
        wishes, defaults, max_tokens=wishes.max_output_tokens, names=NAMES
    )
    return Generation(
        prompts=(tuple(turns),),
        params=params,
        terms=read_terms(wishes),
        model=wishes.model or "",
        stream=True,
        names=NAMES,
    )


def ui_turns(messages: Sequence[UiMessage]) -> list[ChatMessage]:
    """Read UI messages.

    Raises:
        InvalidRequest: None at all, an unknown role, or a part that cannot be read.
    """
    if not messages:
        raise InvalidRequest("at least one message is needed", field="messages")
    check_number(messages, "messages")
    check_parts(message.parts for message in messages)
    turns: list[ChatMessage] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message.role not in ROLES:
            known = ", ".join(ROLES)
            raise InvalidRequest(
                f"unknown role {message.role!r}; known are {known}",
                field=f"{where}.role",
            )
        text = "".join(
            read_part(part, f"{where}.parts[{number}]")
            for number, part in enumerate(message.parts)
        )
        # An answer that was stopped before its first word says nothing.
        if text or message.role != "assistant":
            turns.append(ChatMessage(message.role, text))
    return turns


def read_part(part: UiPart, where: str) -> str:
    """Read the text of a part; "" for one that the model does not read.

    Raises:
        InvalidRequest: It is something that the model would have to read.
    """
    if part.type == "text":
        if part.text is None:
            raise InvalidRequest("is required", field=f"{where}.text")
        return part.text
    if part.type in PASSED_OVER or part.type.startswith("data-"):
        return ""
    raise InvalidRequest(
        f"only text can be read, got a part of type {part.type!r}",
        field=f"{where}.type",
    )
