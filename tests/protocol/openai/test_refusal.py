"""How errors look from outside."""

import msgspec
import pytest

from legato.protocol.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    EngineStalled,
    InvalidModel,
    InvalidRequest,
    Overloaded,
    UnknownOption,
)
from legato.protocol.openai.refusal import Refusal


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequest("x"), 400, "invalid_request_error", "invalid_value"),
        (UnknownOption("x", ()), 400, "invalid_request_error", "unknown_parameter"),
        (
            ContextOverflow(9, 5, "it"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (
            Overloaded("x", retry_after_s=1),
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        (DeadlineExceeded("x"), 504, "timeout_error", "deadline_exceeded"),
        (EngineClosed("x"), 503, "service_unavailable", "engine_closed"),
        (EngineStalled("x"), 503, "service_unavailable", "engine_stalled"),
        (EngineFailed("x"), 500, "server_error", "engine_failed"),
        (InvalidModel("x"), 500, "server_error", "engine_failed"),
        (RuntimeError("x"), 500, "server_error", "internal_error"),
    ],
)
def test_each_error_has_its_status_type_and_code(error, status, kind, code):
    refusal = Refusal.of(error)
    assert (refusal.status, refusal.kind, refusal.code) == (status, kind, code)
    body = msgspec.json.decode(refusal.body())
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}


def test_words_of_the_device_stay_inside():
    for error in (EngineFailed("/home/secret"), ValueError("/home/secret")):
        assert "secret" not in Refusal.of(error).message


def test_a_field_is_named_as_the_client_wrote_it():
    error = InvalidRequest("too big", field="max_tokens")
    refusal = Refusal.of(error, {"max_tokens": "max_output_tokens"})
    assert refusal.param == "max_output_tokens"
    assert refusal.message == "max_output_tokens: too big"


def test_a_refusal_is_its_own_description():
    refusal = Refusal(404, "not_found", "nothing here")
    assert Refusal.of(refusal) is refusal


@pytest.mark.parametrize(
    ("wait_s", "seconds", "millis"), [(0.2, b"1", b"200"), (2.5, b"3", b"2500")]
)
def test_headers_say_when_to_come_back(wait_s, seconds, millis):
    headers = dict(Refusal.of(Overloaded("x", retry_after_s=wait_s)).headers())
    assert headers == {b"retry-after": seconds, b"retry-after-ms": millis}
    assert Refusal.of(InvalidRequest("x")).headers() == []


def test_a_clients_own_words_are_repeated_only_so_far():
    refusal = Refusal.of(UnknownOption("x" * 10**6, ()))
    assert len(refusal.message) <= 2000
    assert refusal.message.startswith("unknown option 'xxx")
    assert refusal.message.endswith("xxx'")
    assert refusal.param is not None
    assert len(refusal.param) <= 200
