"""API keys."""

import pytest

from legato.protocol.openai.refusal import Refusal
from legato.serve.keys import KeyRing


def test_no_keys_let_everybody_in():
    KeyRing(()).check(None)
    KeyRing(()).check("Bearer anything")


@pytest.mark.parametrize("value", ["Bearer two", "bearer two", "Bearer  two"])
def test_any_of_the_keys_fits(value):
    KeyRing(("one", "two")).check(value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "missing_api_key"),
        ("", "missing_api_key"),
        ("Basic two", "missing_api_key"),
        ("Bearer ", "missing_api_key"),
        ("Bearer tw", "invalid_api_key"),
        ("Bearer twoo", "invalid_api_key"),
        ("Bearer zwö", "invalid_api_key"),
    ],
)
def test_nothing_else_does_and_the_answer_never_repeats_it(value, code):
    with pytest.raises(Refusal) as caught:
        KeyRing(("one", "two")).check(value)
    assert caught.value.code == code
    assert caught.value.status == 401
    assert "two" not in str(caught.value)
