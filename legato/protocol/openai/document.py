"""How JSON from outside becomes a struct, strictly.

Knows the shape of every way to be wrong: broken JSON, too deep, a wrong type, a missing
or an unknown field, a field that exists elsewhere but not here. Each is refused by
name; nothing is ignored in silence.
"""

import gc
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar, get_args

import msgspec

from ..errors import InvalidRequest, UnknownOption
from .hints import HINTS

encode = msgspec.json.encode

LARGE_BYTES = 1 << 18
# More than the bounds of messages, parts and functions allow together; to decode so
# many takes some 30 ms.
MAX_OBJECTS = 100_000

_PATH = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_NAME = re.compile(r"field `(?P<name>[^`]*)`")
_NOT_FINITE = re.compile(rb'"(?P<name>\w+)"\s*:\s*(?P<value>-?(?:NaN|Infinity))\b')


class Wire(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object that may hold only the fields it declares."""


W = TypeVar("W", bound=Wire)


def read(body: bytes, kind: type[W]) -> W:
    """Decode one JSON object.

    The struct bounds how deep the document goes where it is kept; where it is not,
    msgspec's own guard ends it. Neither costs a look at every byte beforehand.

    Raises:
        InvalidRequest: Names the field at fault where there is one.
    """
    check_objects(body)
    # What JSON becomes has no cycles: to collect in it, again and again as it grows,
    # can take three times as long as to make it.
    collecting = len(body) > LARGE_BYTES and gc.isenabled()
    if collecting:
        gc.disable()
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise explain(error, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(body, error) from None
    finally:
        if collecting:
            gc.enable()


def check_objects(body: bytes) -> None:
    """Refuse, before it is decoded, what would hold up everybody else meanwhile.

    A brace before a quote begins an object: inside a text the quote would be escaped.
    White space between them hides it, and makes the body so much longer.

    Raises:
        InvalidRequest: With the bound.
    """
    if len(body) <= LARGE_BYTES:
        return
    number = body.count(b'{"')
    if number > MAX_OBJECTS:
        raise InvalidRequest(
            f"a request has at most {MAX_OBJECTS} objects in all (messages, parts, "
            f"calls, …), got {number}"
        )


def convert(value: Mapping[str, Any], kind: type[W], path: str) -> W:
    """Make a struct of an object already decoded.

    Args:
        value: The object.
        kind: The struct.
        path: Where the object stands in the document, for the error.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise explain(error, kind, path) from None


def refuse_unsupported(
    request: Wire, neutral: Mapping[str, Collection[Any]], where: str = ""
) -> None:
    """Refuse declared fields that have no effect here, unless they ask for none.

    Args:
        request: The struct; null and absent always pass.
        neutral: Each such field with the values that change nothing.
        where: Path before the field.

    Raises:
        InvalidRequest: Names the first such field.
    """
    for name, values in neutral.items():
        value = getattr(request, name)
        if value is None or value in values:
            continue
        # An empty list or object says no more than leaving the field out.
        allowed = " or ".join(encode(v).decode() for v in values if v not in ([], {}))
        text = f"only {allowed} is supported" if allowed else "is not supported"
        if name in HINTS:
            text = f"{text}; {HINTS[name]}"
        raise _coded(
            InvalidRequest(f"{text}; leave it out", field=f"{where}{name}"),
            "unsupported_parameter",
        )


def explain(
    error: msgspec.ValidationError, kind: type[Wire], path: str = ""
) -> InvalidRequest:
    """Turn msgspec's words into an ``InvalidRequest`` that names the field."""
    text = str(error)
    found = _PATH.search(text)
    inner = found["path"] if found else ""
    where = ".".join(part for part in (path, inner) if part)
    text = _PATH.sub("", text)
    if name := _NAME.search(text):
        field = ".".join(part for part in (where, name["name"]) if part)
        if "missing" in text:
            missing = InvalidRequest("is required", field=field)
            return _coded(missing, "missing_required_parameter")
        instead = HINTS.get(name["name"], "")
        unknown = UnknownOption(name["name"], known_at(kind, inner), instead)
        unknown.field = field
        return unknown
    text = text[:1].lower() + text[1:]
    return _coded(InvalidRequest(text, field=where or None), "invalid_type")


def known_at(kind: type[Wire], path: str) -> tuple[str, ...]:
    """The fields that may be said at a path, or nothing.

    Those that are declared as ``Any`` are known and have no effect: to suggest one
    would lead from one refusal to the next.
    """
    here = kind
    for step in re.findall(r"[^.\[\]]+", path):
        if step.isdigit():
            continue
        fields = {f.encode_name: f.type for f in msgspec.structs.fields(here)}
        inner = next(_structs(fields.get(step)), None)
        if inner is None:
            return ()
        here = inner
    fields = msgspec.structs.fields(here)
    return tuple(field.encode_name for field in fields if field.type is not Any)


def _structs(annotation: Any) -> Iterator[type[Wire]]:
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        yield annotation
    for argument in get_args(annotation):
        yield from _structs(argument)


def broken(body: bytes, error: Exception) -> InvalidRequest:
    """Say what is wrong with bytes that are not JSON at all."""
    odd = _NOT_FINITE.search(body) if b"NaN" in body or b"Infinity" in body else None
    if odd is not None:
        field, value = odd["name"].decode(), odd["value"].decode()
        return InvalidRequest(f"must be a finite number, got {value}", field=field)
    if isinstance(error, RecursionError):
        return InvalidRequest("nested too deeply")
    return _coded(InvalidRequest(f"not valid JSON: {error}"), "invalid_json")


def _coded(error: InvalidRequest, code: str) -> InvalidRequest:
    error.code = code
    return error
