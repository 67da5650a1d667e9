"""``response_format`` and ``text.format``: what form an answer must have."""

from typing import Any, Literal

import msgspec

from ..errors import InvalidRequest
from ..grammar import Grammar
from .document import Wire, refuse_unsupported

MAX_NAME = 64


class JsonSchema(Wire, kw_only=True):
    """``response_format.json_schema``. The schema always binds, strict or not."""

    name: str
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(Wire, kw_only=True):
    """``response_format``."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class TextFormat(Wire, kw_only=True):
    """``text.format`` of the Responses API: the same, without the inner object."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class TextFields(Wire, kw_only=True):
    """``text`` of the Responses API."""

    format: TextFormat | None = None
    verbosity: Any = None


def read_format(wanted: ResponseFormat | None) -> Grammar | None:
    """Read ``response_format``; None leaves the answer free.

    Raises:
        InvalidRequest: A schema is missing, out of place or too long.
    """
    if wanted is None:
        return None
    field = "response_format.json_schema"
    inner = wanted.json_schema
    if wanted.type == "json_schema":
        if inner is None:
            raise InvalidRequest("is required", field=field)
        return schema_grammar(inner.name, inner.schema, field)
    if inner is not None:
        raise InvalidRequest(f"does not go with type {wanted.type!r}", field=field)
    return Grammar.json_object() if wanted.type == "json_object" else None


def read_text(text: TextFields | None) -> Grammar | None:
    """Read ``text`` of the Responses API; None leaves the answer free.

    Raises:
        InvalidRequest: A schema is missing, out of place or too long, or a verbosity is
            asked for.
    """
    if text is None:
        return None
    refuse_unsupported(text, {"verbosity": ("medium",)}, "text.")
    wanted = text.format
    if wanted is None:
        return None
    if wanted.type == "json_schema":
        return schema_grammar(wanted.name, wanted.schema, "text.format")
    if wanted.schema is not None:
        raise InvalidRequest(
            f"does not go with type {wanted.type!r}", field="text.format.schema"
        )
    return Grammar.json_object() if wanted.type == "json_object" else None


def text_object(text: TextFields | None) -> dict[str, Any]:
    """``text`` as the response object repeats it."""
    wanted = None if text is None else text.format
    if wanted is None:
        return {"format": {"type": "text"}}
    said: dict[str, Any] = msgspec.to_builtins(wanted)
    return {"format": {name: v for name, v in said.items() if v is not None}}


def schema_grammar(
    name: str | None, schema: dict[str, Any] | None, where: str
) -> Grammar:
    """Read a named schema.

    Raises:
        InvalidRequest: The name or the schema is missing or too long.
    """
    if not name or len(name) > MAX_NAME:
        raise InvalidRequest(
            f"must have 1 to {MAX_NAME} characters", field=f"{where}.name"
        )
    if schema is None:
        raise InvalidRequest("is required", field=f"{where}.schema")
    try:
        return Grammar.json_schema(schema)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, field=f"{where}.schema") from error
