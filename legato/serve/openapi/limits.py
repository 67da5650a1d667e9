"""Ranges that structs do not say, because the sampling room checks them.

A test holds each end of each range against what really passes.
"""

from typing import Any

from ...protocol.openai.generation import MAX_N, MAX_TENANT
from ...protocol.openai.scheduling import MAX_DEADLINE_S, MAX_PRIORITY
from ...protocol.sampling import MAX_LOGPROBS, MAX_STOP_CHARACTERS, MAX_STOP_STRINGS

INT32 = 2**31 - 1
DEADLINE = {"exclusiveMinimum": 0, "maximum": MAX_DEADLINE_S}
SIZE = {"minimum": 1, "maximum": 65_536}
DELAY = {"minimum": 0, "maximum": 3600}
STOP_TEXT = {"minLength": 1, "maxLength": MAX_STOP_CHARACTERS}

LIMITS: dict[str, dict[str, Any]] = {
    "temperature": {"minimum": 0, "maximum": 100},
    "top_p": {"exclusiveMinimum": 0, "maximum": 1},
    "top_k": {"minimum": -1, "maximum": INT32},
    "min_p": {"minimum": 0, "maximum": 1},
    "seed": {"minimum": -(2**63), "maximum": 2**64 - 1},
    "min_tokens": {"minimum": 0, "maximum": INT32},
    "max_tokens": {"minimum": 1, "maximum": INT32},
    "max_completion_tokens": {"minimum": 1, "maximum": INT32},
    "max_output_tokens": {"minimum": 1, "maximum": INT32},
    "presence_penalty": {"minimum": -2, "maximum": 2},
    "frequency_penalty": {"minimum": -2, "maximum": 2},
    "repetition_penalty": {"minimum": 0.01, "maximum": 10},
    "top_logprobs": {"minimum": 0, "maximum": MAX_LOGPROBS},
    "logprobs": {"minimum": 0, "maximum": MAX_LOGPROBS},
    "n": {"minimum": 1, "maximum": MAX_N},
    "priority": {"minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY},
    "ttft_deadline_s": DEADLINE,
    "total_deadline_s": DEADLINE,
    "max_batch": SIZE,
    "size": SIZE,
    "max_delay_s": DELAY,
    "max_wait_s": DELAY,
    "user": {"maxLength": MAX_TENANT},
    "safety_identifier": {"maxLength": MAX_TENANT},
}
"""Keywords that apply to a field's numbers, or to its text."""


def limit(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Add what is known of a field's range to its schema, in every alternative."""
    if name == "stop":
        return _limit_stop(schema)
    known = LIMITS.get(name)
    if known is None:
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [_apply(one, known) for one in schema["anyOf"]]}
    return _apply(schema, known)


def _apply(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    is_text = "maxLength" in known or "minLength" in known
    fits = ("string",) if is_text else ("integer", "number")
    return schema | known if schema.get("type") in fits else schema


def _limit_stop(schema: dict[str, Any]) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = []
    for one in schema["anyOf"]:
        if one["type"] == "string":
            one = one | STOP_TEXT
        elif one["type"] == "array":
            items = one["items"] | STOP_TEXT
            one = one | {"items": items, "maxItems": MAX_STOP_STRINGS}
        kinds.append(one)
    return {**schema, "anyOf": kinds}
