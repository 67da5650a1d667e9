"""What an answer's text must look like, as data: compiled where it is needed."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .errors import InvalidRequest

MAX_CHARACTERS = 131_072


class Grammar(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Bind an answer to a form; it ends only where the form is complete.

    Args:
        kind: ``json_object``: any JSON object. ``json_schema``: JSON that a schema
            describes. ``regex``: text that a pattern matches as a whole. ``lark``: a
            grammar in llguidance's variant of Lark, which begins at ``start``.
        text: The schema as JSON, the pattern or the grammar.

    Raises:
        InvalidRequest: No text where one is needed, or too much of it.
    """

    kind: Literal["json_object", "json_schema", "regex", "lark"]
    text: str = ""

    def __post_init__(self) -> None:
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidRequest(
                f"has {len(self.text)} characters, at most {MAX_CHARACTERS}",
                field="grammar",
            )
        if not self.text and self.kind != "json_object":
            raise InvalidRequest(f"{self.kind} needs a text", field="grammar")

    @classmethod
    def json_object(cls) -> "Grammar":
        """Any JSON object."""
        return cls("json_object")

    @classmethod
    def json_schema(cls, schema: str | Mapping[str, Any]) -> "Grammar":
        """JSON that a schema describes, given as JSON or as a mapping.

        Raises:
            InvalidRequest: The mapping is not JSON, or the schema too long.
        """
        if isinstance(schema, str):
            return cls("json_schema", schema)
        try:
            return cls("json_schema", msgspec.json.encode(schema).decode())
        except (TypeError, ValueError, RecursionError) as error:
            text = f"the schema is not JSON: {error}"
            raise InvalidRequest(text, field="grammar") from error

    @classmethod
    def regex(cls, pattern: str) -> "Grammar":
        """Text that a pattern matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, text: str) -> "Grammar":
        """Text that a grammar describes, in llguidance's variant of Lark."""
        return cls("lark", text)
