"""What a client is told when its request cannot be served: OpenAI's error object.

Knows how every error of ours looks from outside, and its HTTP status. An error that is
not a ``LegatoError``, or that carries a device's own words, is told as such and no
more: its text belongs in the log.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineClosed,
    EngineStalled,
    InvalidRequest,
    LegatoError,
    Overloaded,
    UnknownOption,
)

YOURS = "invalid_request_error"
OURS = "server_error"
LOAD = "rate_limit_error"
GONE = "service_unavailable"
# Nobody knows when a device that hangs goes on; often somebody must see to it.
STALLED_S = 10.0

CODES = {
    InvalidRequest.code: "invalid_value",
    UnknownOption.code: "unknown_parameter",
}


# A client's own words stand in both, and may be megabytes.
MAX_MESSAGE = 2000
MAX_PARAM = 200


def shortened(text: str, most: int) -> str:
    """A text whole, or its two ends."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[-(most - most // 2 - 1) :]}"


class Refusal(LegatoError):
    """An error in the form clients see.

    Args:
        status: The HTTP status.
        code: A short word for programs.
        message: A sentence for people.
        param: The request's field at fault, as the client wrote it.
        kind: OpenAI's ``type``.
        retry_after_s: Seconds to wait; 0 says nothing about it.
    """

    code = "refused"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        kind: str = YOURS,
        retry_after_s: float = 0.0,
    ) -> None:
        message = shortened(message, MAX_MESSAGE)
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = None if param is None else shortened(param, MAX_PARAM)
        self.kind = kind
        self.retry_after_s = retry_after_s

    @classmethod
    def of(cls, error: Exception, names: Mapping[str, str] | None = None) -> "Refusal":
        """Describe any error.

        Args:
            error: What was raised.
            names: The engine's field names to those the client wrote, where they
                differ.
        """
        if isinstance(error, Refusal):
            return error
        if isinstance(error, InvalidRequest):
            field = error.field
            param = (names or {}).get(field, field) if field else None
            code = CODES.get(error.code, error.code)
            return cls(400, code, cls._sentence(error, param), param=param)
        if isinstance(error, Overloaded):
            wait_s = error.retry_after_s
            code = "rate_limit_exceeded"
            return cls(429, code, str(error), kind=LOAD, retry_after_s=wait_s)
        if isinstance(error, DeadlineExceeded):
            return cls(504, error.code, str(error), kind="timeout_error")
        if isinstance(error, EngineClosed):
            return cls(503, error.code, str(error), kind=GONE, retry_after_s=1.0)
        if isinstance(error, EngineStalled):
            text = f"{error}; try again later"
            return cls(503, error.code, text, kind=GONE, retry_after_s=STALLED_S)
        code = "engine_failed" if isinstance(error, LegatoError) else "internal_error"
        text = "the engine failed while serving this request; the server's log says why"
        return cls(500, code, text, kind=OURS)

    @staticmethod
    def _sentence(error: InvalidRequest, param: str | None) -> str:
        if isinstance(error, UnknownOption | ContextOverflow) or not param:
            return error.message
        return f"{param}: {error.message}"

    def fields(self) -> dict[str, Any]:
        """The error object itself."""
        return {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }

    def body(self) -> bytes:
        """The JSON body of an HTTP answer, and of an SSE error event."""
        return msgspec.json.encode({"error": self.fields()})

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that say when to try again."""
        if not self.retry_after_s:
            return []
        seconds = max(1, math.ceil(self.retry_after_s))
        millis = max(1, math.ceil(self.retry_after_s * 1000))
        return [
            (b"retry-after", str(seconds).encode()),
            (b"retry-after-ms", str(millis).encode()),
        ]
