"""Valid requests, spoiled: JSON of every odd kind, as text."""

import json
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Raw:
    """Text that stands in the document as it is, JSON or not."""

    text: str


class Twice(dict):
    """An object whose every key is written twice, the second time with null."""


ODD = [
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1),
    *(0.5, -0.0, 5e-324, 1.7e308, 10**400),
    *(
        "",
        "a",
        "\x00",
        "\u202eright to left",
        "e\u0301" * 50,
        "\U0001f469\u200d",
        "x" * 5000,
    ),
    *([], {}, [None], [[]], {"": ""}, {"a": {"b": {"c": []}}}, [1, "1", 1.0]),
    *({"type": "text"}, {"type": 5}, ["stop"] * 20, [2**40], {"5": 200}, {"x": 1}),
    *map(Raw, ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "1.", "+1")),
    *map(Raw, (r'"\ud800"', r'"\udc00\ud800"', '"\x01"', '"', "'a'", "nul", "")),
    *(Raw("[" * 20_000), Raw('{"a":' * 3000 + "1" + "}" * 3000)),
    Raw("[" * 600 + "]" * 600),
    Raw("9" * 5000),
]
odd = st.sampled_from(ODD)


def places(value, here=()):
    """Every path in a value."""
    yield here
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*here, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], (*here, index))


def changed(value, path, change):
    """The value with something done at a path."""
    if not path:
        return change(value)
    key, *rest = path
    copy = value.copy()
    copy[key] = changed(value[key], rest, change)
    return copy


def without(value, path):
    """The value without what is at a path."""
    *path, last = path

    def drop(inner):
        copy = inner.copy()
        del copy[last]
        return copy

    return changed(value, path, drop)


def write(value):
    """Write JSON, and what is none where ``Raw`` says so."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        pairs = [f"{json.dumps(key)}:{write(value[key])}" for key in value]
        if isinstance(value, Twice):
            pairs += [f"{json.dumps(key)}:null" for key in value]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


@st.composite
def spoiled_values(draw, seeds, fields):
    """One of the valid requests after one to three changes.

    Args:
        draw: Hypothesis'.
        seeds: Valid requests.
        fields: Names that a request may have.
    """
    value = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(value))))
        kind = draw(st.sampled_from(["put", "drop", "add", "wrap", "twice", "stray"]))
        if kind == "drop" and path:
            value = without(value, path)
        elif kind == "wrap":
            value = changed(value, path, lambda inner: [inner])
        elif kind == "twice":
            value = changed(
                value, path, lambda v: Twice(v) if isinstance(v, dict) else [v, v]
            )
        elif kind in ("add", "stray") and isinstance(value, dict):
            known = kind == "add" and fields
            name = draw(st.sampled_from(fields) if known else st.text(max_size=4))
            value = {**value, name: draw(odd)}
        else:
            new = draw(odd)
            value = changed(value, path, lambda _, new=new: new)
    return value


@st.composite
def spoiled(draw, seeds, fields):
    """The bytes of a spoiled request, now and then cut, joined or garbled."""
    data = write(draw(spoiled_values(seeds, fields))).encode("utf-8", "surrogatepass")
    harm = draw(st.sampled_from(["no"] * 6 + ["cut", "tail", "byte", "bom"]))
    at = draw(st.integers(0, len(data)))
    if harm == "cut":
        return data[:at]
    if harm == "tail":
        return data + draw(st.sampled_from([b"}", b"{}", b" ", b"\x00", b"null"]))
    if harm == "byte":
        return data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
    if harm == "bom":
        return b"\xef\xbb\xbf" + data
    return data
