"""Log-probabilities in the shapes of the three protocols.

Token ids become text through a function that the engine gives: the bytes behind an id.
A token may hold half a character; its text then shows U+FFFD, its bytes are exact.
"""

from collections.abc import Callable
from typing import Any

from ..requests import Delta

TokenBytes = Callable[[int], bytes]


def token_logprobs(delta: Delta, token_bytes: TokenBytes) -> list[dict[str, Any]]:
    """One entry for each token of a delta, for chat and for the Responses API."""
    entries: list[dict[str, Any]] = []
    for token, logprobs in zip(delta.token_ids, delta.logprobs, strict=False):
        entry = _token(token, logprobs.chosen, token_bytes)
        entry["top_logprobs"] = [
            _token(other, value, token_bytes)
            for other, value in zip(logprobs.ids, logprobs.values, strict=True)
        ]
        entries.append(entry)
    return entries


def completion_logprobs(
    delta: Delta, token_bytes: TokenBytes, offset: int
) -> dict[str, Any]:
    """Four lists side by side, for ``/v1/completions``.

    Args:
        delta: Tokens with their log-probabilities.
        token_bytes: The bytes behind an id.
        offset: Characters of text before this delta.
    """
    tokens: list[str] = []
    values: list[float] = []
    tops: list[dict[str, float]] = []
    offsets: list[int] = []
    for token, logprobs in zip(delta.token_ids, delta.logprobs, strict=False):
        text = _text(token_bytes(token))
        tokens.append(text)
        values.append(logprobs.chosen)
        pairs = zip(logprobs.ids, logprobs.values, strict=True)
        tops.append({_text(token_bytes(other)): value for other, value in pairs})
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": tokens,
        "token_logprobs": values,
        "top_logprobs": tops,
        "text_offset": offsets,
    }


def _token(token: int, logprob: float, token_bytes: TokenBytes) -> dict[str, Any]:
    raw = token_bytes(token)
    return {"token": _text(raw), "logprob": logprob, "bytes": list(raw)}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
