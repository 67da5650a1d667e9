"""What a server's error becomes here: the errors an embedded engine would raise."""

from collections.abc import Mapping
from typing import Any

from ..protocol.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    EngineStalled,
    InvalidRequest,
    LegatoError,
    NotAdmitted,
    Overloaded,
)


def fault_of(event: Mapping[str, Any]) -> LegatoError:
    """Build the error that an ``error`` event tells of; ``code`` is the server's."""
    status: int = event.get("status", 500)
    error: Mapping[str, Any] = event["error"]
    message: str = error["message"]
    code = error.get("code")
    if code == EngineStalled.code:
        return EngineStalled(message)
    fault = _fault(status, message, error.get("param"), event.get("headers") or error)
    if code:
        fault.code = code
    return fault


def _fault(
    status: int, message: str, param: str | None, said: Mapping[str, Any]
) -> LegatoError:
    if status in (401, 403):
        return NotAdmitted(message)
    if status == 429:
        headers: Mapping[str, str] = said.get("headers", said)
        wait_s = int(headers.get("retry-after-ms", 1000)) / 1000
        return Overloaded(message, retry_after_s=wait_s)
    if status == 503:
        return EngineClosed(message)
    if status == 504:
        return DeadlineExceeded(message)
    if 400 <= status < 500:
        # The server's sentence begins with the field already.
        prefix = f"{param}: "
        return InvalidRequest(message.removeprefix(prefix), field=param)
    return EngineFailed(message)
