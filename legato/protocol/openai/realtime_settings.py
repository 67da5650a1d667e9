"""What a Realtime session and its responses are to be like, as the client says it.

A session's settings are kept as the client wrote them, so that an update changes only
what it names, and a response's own lie over them. Beside OpenAI's fields, both take
ours: sampling and scheduling.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import msgspec

from ..errors import InvalidRequest
from ..sampling import SamplingParams
from .document import encode, read, refuse_unsupported
from .metadata import check_metadata
from .realtime import read_response, read_session
from .sampling import sampling_params
from .scheduling import SchedulingFields, Terms, read_terms

NAMES = {"max_tokens": "max_output_tokens"}
"""The engine's field names to those of this protocol."""

Settings = dict[str, Any]


class GenerationFields(SchedulingFields, kw_only=True):
    """What sessions and responses may both say. ``Any``: known, without effect here."""

    instructions: str | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    output_modalities: list[str] | None = None
    audio: Any = None
    parallel_tool_calls: bool | None = None
    prompt: Any = None
    reasoning: Any = None
    tool_choice: Any = None
    tools: Any = None


class SessionFields(GenerationFields, kw_only=True):
    """``session`` of ``session.update``."""

    type: Literal["realtime"]
    model: str | None = None
    include: Any = None
    tracing: Any = None
    truncation: Any = None


class ResponseFields(GenerationFields, kw_only=True):
    """``response`` of ``response.create``."""

    conversation: Literal["auto", "none"] | None = None
    input: list[dict[str, Any]] | None = None
    metadata: dict[str, str] | None = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "output_modalities": (["text"],),
    "prompt": (),
    "reasoning": ({},),
    "tool_choice": ("auto", "none"),
    "tools": ([],),
}
SESSION_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **NEUTRAL,
    "include": ([],),
    "tracing": (),
    "truncation": ("disabled",),
}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A response to make.

    Args:
        params: For the engine.
        terms: For the engine.
        instructions: A system message before everything else, or "".
        input: Items to read in place of the conversation's, or None.
        writes: Whether the answer becomes part of the conversation.
        max_output_tokens: As the response shows it.
        metadata: As the client gave it.
    """

    params: SamplingParams
    terms: Terms
    instructions: str
    input: list[dict[str, Any]] | None
    writes: bool
    max_output_tokens: int | str
    metadata: dict[str, str] | None


def updated_session(
    frame: bytes, current: Settings, defaults: Mapping[str, float]
) -> Settings:
    """Read a ``session.update``.

    Args:
        frame: The event.
        current: The session's settings until now.
        defaults: The model's recommended sampling.

    Returns:
        The settings from now on.

    Raises:
        InvalidRequest: Names the field at fault; nothing has changed then.
    """
    changes = read_session(frame)
    if "type" not in changes:
        raise InvalidRequest("is required", field="session.type")
    settings = {**current, **changes}
    with _below("session"):
        fields = read(encode(settings), SessionFields)
        refuse_unsupported(fields, SESSION_NEUTRAL)
        _read_params(fields, defaults)
        read_terms(fields)
    return settings


def read_order(frame: bytes, session: Settings, defaults: Mapping[str, float]) -> Order:
    """Read a ``response.create``.

    Args:
        frame: The event.
        session: The settings that hold where it is silent.
        defaults: The model's recommended sampling.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    said = read_response(frame)
    names = GenerationFields.__struct_fields__
    settings = {name: value for name, value in session.items() if name in names}
    settings |= {name: value for name, value in said.items() if value is not None}
    with _below("response"):
        fields = read(encode(settings), ResponseFields)
        refuse_unsupported(fields, NEUTRAL)
        check_metadata(fields.metadata)
        return Order(
            params=_read_params(fields, defaults),
            terms=read_terms(fields),
            instructions=fields.instructions or "",
            input=fields.input,
            writes=fields.conversation != "none",
            max_output_tokens=fields.max_output_tokens or "inf",
            metadata=fields.metadata,
        )


def session_object(name: str, model: str, settings: Settings) -> dict[str, Any]:
    """A session as clients read it: what holds, whoever said so."""
    said = {key: value for key, value in settings.items() if value is not None}
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": name,
        "output_modalities": ["text"],
        "instructions": "",
        "max_output_tokens": "inf",
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "tracing": None,
        "prompt": None,
        **said,
        "model": model,
    }


def _read_params(
    fields: GenerationFields, defaults: Mapping[str, float]
) -> SamplingParams:
    if not asks_for_nothing(fields.audio):
        raise InvalidRequest("audio is not supported; leave it out", field="audio")
    limit = fields.max_output_tokens
    return sampling_params(
        fields, defaults, max_tokens=None if limit == "inf" else limit, names=NAMES
    )


def asks_for_nothing(value: Any) -> bool:
    """Say whether nested settings switch everything off."""
    if isinstance(value, dict):
        return all(map(asks_for_nothing, cast("dict[str, Any]", value).values()))
    return value is None or value == []


@contextmanager
def _below(where: str) -> Generator[None]:
    """Let errors name their field by its place in the whole frame."""
    try:
        yield
    except InvalidRequest as error:
        error.field = f"{where}.{error.field}" if error.field else where
        raise
