"""When a request wants to run: fields of ours, beside every protocol's own."""

from typing import Any

import msgspec

from ..sampling import within
from .sampling import SamplingFields

MAX_PRIORITY = 100
MAX_DEADLINE_S = 86_400.0


class SchedulingFields(SamplingFields, kw_only=True):
    """What every generating request may say beside its sampling."""

    priority: int | None = None
    ttft_deadline_s: float | None = None
    total_deadline_s: float | None = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """When a request wants to run; the engine's names and meanings.

    Args:
        priority: Lower runs earlier.
        ttft_deadline_s: Seconds to the first token; 0 is none.
        total_deadline_s: Seconds to the end; 0 is none.
    """

    priority: int = 0
    ttft_deadline_s: float = 0.0
    total_deadline_s: float = 0.0


def read_terms(fields: SchedulingFields) -> Terms:
    """Read the terms of a request.

    Raises:
        InvalidRequest: A value outside its range; names field and range.
    """
    said: dict[str, Any] = {}
    if fields.priority is not None:
        within(fields.priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
        said["priority"] = fields.priority
    for name in ("ttft_deadline_s", "total_deadline_s"):
        value = getattr(fields, name)
        if value is not None:
            within(value, name, 0, MAX_DEADLINE_S, low_open=True)
            said[name] = value
    return Terms(**said)
