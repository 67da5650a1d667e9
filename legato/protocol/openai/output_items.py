"""One item of a response's output: a message, or a call of a function.

An item is opened, filled and closed, each with its events; it knows its place among
the items, and nothing of the others.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from ..tools import ToolCall
from .response_frames import DeltaShape, FrameWriter

Entries = Sequence[dict[str, Any]]
"""Log-probabilities, one entry a token."""


class MessageItem:
    """A message that is being written.

    Args:
        writer: Of the response.
        name: Its id.
        index: Its place in the output.
        shape: Of its deltas.
    """

    def __init__(
        self, writer: FrameWriter, name: str, index: int, shape: DeltaShape
    ) -> None:
        self._writer = writer
        self._name = name
        self._index = index
        self._place = place_of(name, index)
        self._shape = shape
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        """What it says so far."""
        return "".join(self._texts)

    def open(self) -> list[str]:
        """Tell that it begins."""
        event, item = self._writer.event, self._object("in_progress", [])
        part = text_part("", [])
        return [
            event("response.output_item.added", output_index=self._index, item=item),
            event("response.content_part.added", **self._place, part=part),
        ]

    def add(self, text: str, entries: Entries = ()) -> str:
        """Tell more of its text."""
        self._texts.append(text)
        if not entries:
            return self._writer.delta(self._shape, text)
        self._logprobs += entries
        return self._writer.event(
            "response.output_text.delta", **self._place, delta=text, logprobs=entries
        )

    def close(self, status: str) -> tuple[list[str], dict[str, Any]]:
        """Tell that it has ended; return the item too."""
        event, text, logprobs = self._writer.event, self.text, self._logprobs
        part = text_part(text, logprobs)
        item = self._object(status, [part])
        frames = [
            event(
                "response.output_text.done", **self._place, text=text, logprobs=logprobs
            ),
            event("response.content_part.done", **self._place, part=part),
            event("response.output_item.done", output_index=self._index, item=item),
        ]
        return frames, item

    def _object(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._name,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }


class CallItem:
    """A call that is being written. ``complete`` once its arguments are.

    Args:
        writer: Of the response.
        function: What it calls.
        index: Its place in the output.
    """

    def __init__(self, writer: FrameWriter, function: str, index: int) -> None:
        self.complete = False
        self._writer = writer
        self._function = function
        self._name = f"fc_{uuid.uuid4().hex}"
        self._call = f"call_{uuid.uuid4().hex[:24]}"
        self._index = index
        self._place = {"item_id": self._name, "output_index": index}
        self._pieces: list[str] = []

    @property
    def call(self) -> ToolCall:
        """The call so far."""
        return ToolCall(self._call, self._function, "".join(self._pieces))

    def open(self) -> list[str]:
        """Tell that it begins."""
        item = self._object("in_progress", "")
        return [
            self._writer.event(
                "response.output_item.added", output_index=self._index, item=item
            )
        ]

    def add(self, piece: str) -> str:
        """Tell more of its arguments."""
        self._pieces.append(piece)
        kind = "response.function_call_arguments.delta"
        return self._writer.event(kind, **self._place, delta=piece)

    def close(self) -> tuple[list[str], dict[str, Any]]:
        """Tell that it has ended, or was cut; return the item too."""
        event, arguments = self._writer.event, self.call.arguments
        item = self._object("completed" if self.complete else "incomplete", arguments)
        kind = "response.function_call_arguments.done"
        frames = [
            event(kind, **self._place, arguments=arguments),
            event("response.output_item.done", output_index=self._index, item=item),
        ]
        return frames, item

    def _object(self, status: str, arguments: str) -> dict[str, Any]:
        return {
            "id": self._name,
            "type": "function_call",
            "status": status,
            "call_id": self._call,
            "name": self._function,
            "arguments": arguments,
        }


def place_of(name: str, index: int) -> dict[str, Any]:
    """Where a message's text stands."""
    return {"item_id": name, "output_index": index, "content_index": 0}


def text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    """A part of a message's content."""
    annotations: list[Any] = []
    part: dict[str, Any] = {"type": "output_text", "text": text}
    return part | {"annotations": annotations, "logprobs": logprobs}
