"""Calls in answers, in the shape of ``/v1/chat/completions``."""

import uuid
from collections.abc import Iterable
from typing import Any, Protocol

from ..tools import AnswerPiece, CallBegun, CallPiece


class CallParser(Protocol):
    """Tells one answer's calls from its text, as it comes."""

    @property
    def num_calls(self) -> int:
        """Calls begun so far."""
        ...

    def feed(self, text: str) -> list[AnswerPiece]:
        """Take text; return what is certain by it."""
        ...

    def finish(self) -> list[AnswerPiece]:
        """Return what was held back."""
        ...


def parsed(parser: CallParser, text: str, *, last: bool) -> list[AnswerPiece]:
    """Feed a parser, to the end if this is the last text."""
    pieces = parser.feed(text)
    return pieces + parser.finish() if last else pieces


def delta_fields(pieces: Iterable[AnswerPiece]) -> dict[str, Any]:
    """One chunk's ``delta`` of all that became known together.

    A call's ``id``, ``type`` and name stand where it begins, and nowhere else; its
    ``index`` stands everywhere.
    """
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        elif isinstance(piece, CallBegun):
            calls[piece.index] = {
                "index": piece.index,
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": piece.name, "arguments": ""},
            }
        elif isinstance(piece, CallPiece):
            function = calls.setdefault(
                piece.index, {"index": piece.index, "function": {"arguments": ""}}
            )["function"]
            function["arguments"] += piece.text
    fields: dict[str, Any] = {"content": text} if text else {}
    return fields | {"tool_calls": list(calls.values())} if calls else fields


def message_fields(parser: CallParser, text: str) -> dict[str, Any]:
    """A whole answer's ``content`` and ``tool_calls``."""
    fields = delta_fields(parsed(parser, text, last=True))
    calls: list[dict[str, Any]] = fields.get("tool_calls", [])
    for call in calls:
        del call["index"]
    content = fields.get("content")
    if not calls:
        return {"content": content or ""}
    return {"content": content, "tool_calls": calls}
