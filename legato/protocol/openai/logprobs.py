"""Log-probabilities in the shapes of the three protocols.

Token ids become text through a function that the engine gives: the bytes behind an id.
A token may hold half a character; its text then shows U+FFFD, its bytes are exact.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..requests import Delta
from ..steps import TokenLogprobs

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


class CompletionLogprobs:
    """Four lists side by side, for ``/v1/completions``.

    Args:
        token_bytes: The bytes behind an id.
        offset: Characters of text before the first token.
    """

    def __init__(self, token_bytes: TokenBytes, offset: int) -> None:
        self._token_bytes = token_bytes
        self._offset = offset
        self._tokens: list[str] = []
        self._values: list[float | None] = []
        self._tops: list[dict[str, float] | None] = []
        self._offsets: list[int] = []

    def add(
        self, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs | None]
    ) -> None:
        """Add tokens; nothing is known of one that nothing comes before."""
        text_of = self._token_bytes
        for token, known in zip(tokens, logprobs, strict=False):
            text = _text(text_of(token))
            self._tokens.append(text)
            self._offsets.append(self._offset)
            self._offset += len(text)
            if known is None:
                self._values.append(None)
                self._tops.append(None)
                continue
            self._values.append(known.chosen)
            pairs = zip(known.ids, known.values, strict=True)
            self._tops.append({_text(text_of(one)): value for one, value in pairs})

    @property
    def object(self) -> dict[str, Any]:
        """All of them."""
        return {
            "tokens": self._tokens,
            "token_logprobs": self._values,
            "top_logprobs": self._tops,
            "text_offset": self._offsets,
        }


def _token(token: int, logprob: float, token_bytes: TokenBytes) -> dict[str, Any]:
    raw = token_bytes(token)
    return {"token": _text(raw), "logprob": logprob, "bytes": list(raw)}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
