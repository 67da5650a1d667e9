"""JSON from outside, strictly."""

import contextlib
import gc

import msgspec
import pytest

from legato.protocol.errors import InvalidRequest, UnknownOption
from legato.protocol.openai import chat, completion, messages, response_fields
from legato.protocol.openai.chat import ChatRequest
from legato.protocol.openai.completion import CompletionRequest
from legato.protocol.openai.document import (
    Wire,
    convert,
    read,
    refuse_unsupported,
)
from legato.protocol.openai.messages import Message
from legato.protocol.openai.response_fields import CreateBody, CreateFrame


class Inner(Wire, kw_only=True):
    width: int = 0


class Outer(Wire, kw_only=True):
    name: str
    inner: Inner | None = None
    rows: list[Inner] | None = None
    extra: object = None


def refused(body):
    with pytest.raises(InvalidRequest) as caught:
        read(body, Outer)
    return caught.value


def test_a_right_body_becomes_its_struct():
    body = b'{"name": "a", "inner": {"width": 3}}'
    assert read(body, Outer) == Outer(name="a", inner=Inner(width=3))


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        (b"{}", "name", "missing_required_parameter"),
        (b'{"name": 5}', "name", "invalid_type"),
        (b'{"name": "a", "inner": {"width": "x"}}', "inner.width", "invalid_type"),
        (b'{"name": "a", "rows": [{}, 5]}', "rows[1]", "invalid_type"),
        (b'{"name": "a", "rows": [{"width": []}]}', "rows[0].width", "invalid_type"),
        (b"[]", None, "invalid_type"),
        (b"{", None, "invalid_json"),
        (b"", None, "invalid_json"),
        (b'{"name": "\xff"}', None, "invalid_json"),
        (b'{"name": NaN}', "name", "invalid_request"),
        (b'{"name": -Infinity}', "name", "invalid_request"),
    ],
)
def test_a_wrong_body_names_its_field(body, field, code):
    error = refused(body)
    assert (error.field, error.code) == (field, code)
    assert error.message


@pytest.mark.parametrize(
    ("body", "field", "near"),
    [
        (b'{"nme": "a"}', "nme", "name"),
        (b'{"name": "a", "inner": {"widht": 1}}', "inner.widht", "width"),
        (b'{"name": "a", "rows": [{"wdth": 1}]}', "rows[0].wdth", "width"),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest(body, field, near):
    error = refused(body)
    assert isinstance(error, UnknownOption)
    assert error.field == field
    assert f"did you mean {near!r}?" in error.message


@pytest.mark.parametrize(
    ("kind", "neutral"),
    [
        (ChatRequest, chat.NEUTRAL),
        (CompletionRequest, completion.NEUTRAL),
        (CreateBody, response_fields.NEUTRAL),
        (CreateFrame, response_fields.NEUTRAL | response_fields.SOCKET_NEUTRAL),
        (Message, messages.NEUTRAL),
    ],
)
def test_no_field_is_suggested_that_would_be_refused_next(kind, neutral):
    declared = kind.__struct_encode_fields__
    assert set(neutral) <= set(declared)
    for name in declared:
        misspelt = f"{name}s"
        if misspelt in declared:
            continue
        with pytest.raises(InvalidRequest) as caught:
            convert({misspelt: 1}, kind, "")
        told = str(caught.value)
        assert misspelt in told
        assert not [other for other in neutral if f"did you mean '{other}'" in told]


def test_an_object_already_decoded_is_named_by_its_place():
    with pytest.raises(InvalidRequest) as caught:
        convert({"width": "x"}, Inner, "items[3]")
    assert caught.value.field == "items[3].width"


def test_a_field_without_effect_passes_at_its_neutral_value_only():
    neutral = {"extra": (1, {"type": "text"})}
    for value in (None, 1, {"type": "text"}):
        refuse_unsupported(Outer(name="a", extra=value), neutral)
    with pytest.raises(InvalidRequest) as caught:
        refuse_unsupported(Outer(name="a", extra=2), neutral, "at.")
    assert caught.value.field == "at.extra"
    assert "only 1" in caught.value.message
    assert caught.value.code == "unsupported_parameter"


@pytest.mark.parametrize("field", ["extra", "unknown", "name"])
@pytest.mark.parametrize("nest", [b"[", b'{"a":', b"[]," * 3 + b"["])
def test_absurd_nesting_is_refused_without_a_crash(field, nest):
    deep = b'{"' + field.encode() + b'":' + nest * 100_000
    assert refused(deep).field in (None, field)


def test_a_body_of_very_many_objects_is_refused_before_it_is_decoded():
    rows = b",".join([b'{"width":1}'] * 100_001)
    told = refused(b'{"name":"x","rows":[' + rows + b"]")  # not even closed
    assert "at most 100000 objects" in str(told)
    assert "got 100002" in str(told)


def test_braces_and_quotes_in_a_text_are_no_objects():
    name = '{"' * 200_000
    body = msgspec.json.encode({"name": name})
    assert read(body, Outer).name == name


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("body", [b'{"name":"%s"}', b'{"nam":"%s"}', b'{"name":"%s"'])
def test_a_large_body_leaves_the_collector_as_it_was(body, collecting):
    was_on = gc.isenabled()
    gc.enable() if collecting else gc.disable()
    try:
        with contextlib.suppress(InvalidRequest):
            read(body % (b"x" * 300_000), Outer)
        assert gc.isenabled() == collecting
    finally:
        gc.enable() if was_on else gc.disable()
