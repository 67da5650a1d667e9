"""One HTTP operation: what it takes and what it answers."""

from collections.abc import Mapping
from typing import Any

import msgspec

JSON = "application/json"
EVENTS = "text/event-stream"
# What any request may meet, beside what its operation adds.
ALWAYS = (403, 404, 405, 431, 500)
# What a request with a body may meet.
BODY = (400, 408, 413, 415)
# What a request to the engine may meet.
WORK = (429, 503, 504)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter in path or query.

    Args:
        name: As clients write it.
        where: ``path`` or ``query``; those in the path are required.
        schema: JSON Schema.
        says: What it means.
    """

    name: str
    where: str
    schema: dict[str, Any]
    says: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    Args:
        path: As the router knows it.
        method: Upper case.
        name: The operation's id.
        says: One line.
        takes: The struct of the body, or None.
        gives: Media type to the struct of the answer; None is text or free-form JSON.
        fails: Statuses beside those that any request may meet.
        parameters: In path and query.
        may_be_empty: 204 says that there is nothing to give.
        needs_key: ``never``, ``sometimes`` (where the server has keys) or ``always``.
    """

    path: str
    method: str
    name: str
    says: str
    takes: Any = None
    gives: Mapping[str, Any] = {}
    fails: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    may_be_empty: bool = False
    needs_key: str = "sometimes"
