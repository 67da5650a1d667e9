"""Builds the OpenAPI 3.1 document out of the table of operations."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from ...version import __version__
from . import answers
from .limits import limit
from .operation import ALWAYS, JSON, Operation
from .operations import READ_LATER, WITHOUT_EFFECT, Neutral

REF = "#/components/schemas/{name}"
INTRODUCTION = """\
Streaming inference in OpenAI's protocols. Responses mode over WebSocket, at
`/v1/responses`, is the primary protocol; OpenAPI has no words for sockets."""


def describe(
    operations: Sequence[Operation], *, root: str = "", has_keys: bool = False
) -> dict[str, Any]:
    """Describe operations.

    Args:
        operations: The table.
        root: The path where the application is mounted.
        has_keys: The server asks for API keys.
    """
    shapes = Shapes(operations)
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        described = _operation(one, shapes, has_keys=has_keys)
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Legato",
            "version": __version__,
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


class Shapes:
    """The schemas of every struct that operations name.

    Args:
        operations: The table.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        kinds: list[Any] = [answers.Refused]
        for one in operations:
            kinds += [kind for kind in (one.takes, *one.gives.values()) if kind]
        for fields in READ_LATER.values():
            kinds += fields.values()
        schemas, self.components = msgspec.json.schema_components(
            kinds, ref_template=REF
        )
        self._schemas = list(zip(kinds, schemas, strict=True))
        neutral = {kind.__name__: known for kind, known in WITHOUT_EFFECT.items()}
        for name, schema in self.components.items():
            complete(schema, neutral.get(name, {}))
        for kind, fields in READ_LATER.items():
            properties = self.components[kind.__name__]["properties"]
            properties |= {name: self.of(read) for name, read in fields.items()}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a kind that some operation names."""
        return next(schema for known, schema in self._schemas if known is kind)


def complete(schema: dict[str, Any], neutral: Neutral) -> None:
    """Say of a struct's fields what its types do not."""
    fields: dict[str, Any] = schema.get("properties", {})
    for name, field in fields.items():
        field.pop("default", None)
        if name in neutral:
            known = [value for value in neutral[name] if value is not None]
            fields[name] = {"enum": [None, *known]}
        else:
            fields[name] = limit(name, field)


def _operation(one: Operation, shapes: Shapes, *, has_keys: bool) -> dict[str, Any]:
    needs_key = one.needs_key == "always" or (has_keys and one.needs_key == "sometimes")
    fails = {*ALWAYS, *one.fails, *((401,) if needs_key else ())}
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.says,
        "responses": {"200": _answer(one, shapes)} | _failures(fails, one, shapes),
        "security": [{"key": []}] if needs_key else [],
    }
    if one.may_be_empty:
        described["responses"]["204"] = {"description": "There is nothing to give."}
    if one.takes is not None:
        content = {JSON: {"schema": shapes.of(one.takes)}}
        described["requestBody"] = {"required": True, "content": content}
    if one.parameters:
        described["parameters"] = [
            {
                "name": parameter.name,
                "in": parameter.where,
                "required": parameter.where == "path",
                "schema": parameter.schema,
                "description": parameter.says,
            }
            for parameter in one.parameters
        ]
    return described


def _answer(one: Operation, shapes: Shapes) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for media, kind in one.gives.items():
        free: dict[str, Any] = {} if media == JSON else {"type": "string"}
        content[media] = {"schema": free if kind is None else shapes.of(kind)}
    return {"description": "The answer.", "content": content}


def _failures(
    statuses: Iterable[int], one: Operation, shapes: Shapes
) -> dict[str, Any]:
    refused = shapes.of(answers.Refused)
    failures: dict[str, Any] = {}
    for status in sorted(statuses):
        schema = refused
        if status == 503 and answers.HealthReport in one.gives.values():
            schema = shapes.of(answers.HealthReport)
        failures[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {JSON: {"schema": schema}},
        }
    return failures
