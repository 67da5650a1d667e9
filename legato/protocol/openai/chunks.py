"""What all chunks of one streamed answer share, encoded once."""

from typing import Any

from ..requests import Usage
from .document import encode
from .usage import chat_usage


class ChunkFrame:
    """The beginning and the end of every chunk of one request.

    Args:
        name: The completion's id.
        kind: The chunk's ``object``.
        model: The model's name.
        created_s: Unix time.
        include_usage: Chunks carry ``usage``, null but in the last.
    """

    def __init__(
        self, name: str, kind: str, model: str, created_s: int, *, include_usage: bool
    ) -> None:
        self.head: dict[str, Any] = {
            "id": name,
            "object": kind,
            "created": created_s,
            "model": model,
            "system_fingerprint": None,
        }
        self.start = encode(self.head)[:-1] + b',"choices":'
        self.end = b',"usage":null}' if include_usage else b"}"

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last, for those who asked."""
        return self.start + b'[],"usage":' + encode(chat_usage(usage)) + b"}"
