"""Events of one response as text: numbered densely, and naming its lane.

Knows no kinds of events.
"""

from typing import Any

import msgspec

encode = msgspec.json.encode


class DeltaShape(msgspec.Struct, frozen=True):
    """What the text deltas of one message repeat.

    Args:
        prefix: What stands before the text.
        middle: What stands between the text and the number.
    """

    prefix: str
    middle: str

    def frame(self, text: str, number: int) -> str:
        """A whole event; the text is JSON."""
        return f"{self.prefix}{text}{self.middle}{number}}}"

    def text_in(self, frame: str, number: int) -> str | None:
        """The text of such an event, as JSON; None for any other event."""
        tail = f"{self.middle}{number}}}"
        if frame.startswith(self.prefix) and frame.endswith(tail):
            return frame[len(self.prefix) : len(frame) - len(tail)]
        return None


class FrameWriter:
    """Writes the events of one response.

    Args:
        stream_id: The lane to echo, or None.
    """

    def __init__(self, stream_id: str | None) -> None:
        self._lane = {} if stream_id is None else {"stream_id": stream_id}
        self._sequence = 0

    def event(self, kind: str, /, **fields: Any) -> str:
        """Write an event."""
        number, self._sequence = self._sequence, self._sequence + 1
        event = {"type": kind, **fields, **self._lane, "sequence_number": number}
        return encode(event).decode()

    def shape(self, place: dict[str, Any]) -> DeltaShape:
        """Encode once what repeats with every token of a message.

        Args:
            place: Where its text stands.
        """
        head = {"type": "response.output_text.delta", **place, **self._lane}
        return DeltaShape(
            encode(head).decode()[:-1] + ',"delta":',
            ',"logprobs":[],"sequence_number":',
        )

    def delta(self, shape: DeltaShape, text: str) -> str:
        """Write a text delta without log-probabilities."""
        number, self._sequence = self._sequence, self._sequence + 1
        return shape.frame(encode(text).decode(), number)
