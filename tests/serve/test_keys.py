"""API keys."""

import re

import pytest

from legato.protocol.openai.refusal import Refusal
from legato.serve.keys import KeyRing, tenant_of


def test_no_keys_let_everybody_in():
    assert not KeyRing(())
    assert KeyRing(()).check(None) == ""
    assert KeyRing(()).check("Bearer anything") == ""


@pytest.mark.parametrize("value", ["Bearer two", "bearer two", "Bearer  two"])
def test_any_of_the_keys_fits(value):
    assert KeyRing(("one", "two")).check(value) == KeyRing(("two",)).check(value)


def test_each_key_has_a_tenant_of_its_own_that_does_not_tell_it():
    ring = KeyRing(("one", "two"))
    one, two = (ring.check(f"Bearer {key}") for key in ("one", "two"))
    assert one != two
    assert re.fullmatch("key-[0-9a-f]{12}", one)
    assert tenant_of(b"one") == one == "key-7692c3ad3540"


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
