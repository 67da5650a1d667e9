"""The events of one response, in order, with dense sequence numbers.

Text travels once, as deltas; the ``done`` events and the terminal one carry it whole,
as the public specification says. Exactly one terminal event ends a response:
``response.completed``, ``response.incomplete``, ``response.failed``, or, for our
``response.cancel``, ``response.cancelled``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..requests import Delta, FinishReason, Usage
from .extensions import Note
from .logprobs import TokenBytes, token_logprobs
from .refusal import Refusal
from .usage import response_usage

encode = msgspec.json.encode

STATUS = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "incomplete",
    FinishReason.CANCELLED: "cancelled",
}
# The response object's own codes are few; everything else is the server's fault.
OBJECT_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}


class DeltaShape(msgspec.Struct, frozen=True):
    """What the delta events of one response repeat.

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


class ResponseEvents:
    """One response on its way out; owned by the lane that runs it.

    Args:
        name: The response's id.
        model: The model's name.
        created_s: Unix time.
        stream_id: The lane to echo, or None.
        echo: The request's fields that the response object repeats.
        token_bytes: The bytes behind a token id.
        clock: Unix time, for ``completed_at``.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created_s: int,
        *,
        stream_id: str | None,
        echo: Mapping[str, Any],
        token_bytes: TokenBytes,
        clock: Callable[[], float],
    ) -> None:
        self._item = f"msg_{name.removeprefix('resp_')}"
        self._clock = clock
        self._token_bytes = token_bytes
        self._lane = {} if stream_id is None else {"stream_id": stream_id}
        self._sequence = 0
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._item_open = False
        self._object = {**response_object(name, model, created_s), **echo}
        self._place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        head: dict[str, Any] = {"type": "response.output_text.delta", **self._place}
        # What repeats with every token is encoded once.
        self.shape = DeltaShape(
            encode({**head, **self._lane}).decode()[:-1] + ',"delta":',
            ',"logprobs":[],"sequence_number":',
        )

    @property
    def object(self) -> dict[str, Any]:
        """The response as it is now."""
        return self._object

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._texts)

    def opening(self) -> list[str]:
        """The response exists, and is being worked on."""
        return [
            self._event("response.created", response=self._object),
            self._event("response.in_progress", response=self._object),
        ]

    def delta(self, delta: Delta) -> list[str]:
        """New text; nothing if the delta shows nothing."""
        if not (delta.text or delta.logprobs):
            return []
        frames = [] if self._item_open else self._open_item()
        self._texts.append(delta.text)
        if delta.logprobs:
            entries = token_logprobs(delta, self._token_bytes)
            self._logprobs += entries
            frames.append(
                self._event(
                    "response.output_text.delta",
                    **self._place,
                    delta=delta.text,
                    logprobs=entries,
                )
            )
            return frames
        text = encode(delta.text).decode()
        number, self._sequence = self._sequence, self._sequence + 1
        frames.append(self.shape.frame(text, number))
        return frames

    def warmed(self, usage: Usage) -> list[str]:
        """The end of a response that only took up its prompt."""
        self._object["status"] = "completed"
        self._object["completed_at"] = int(self._clock())
        self._object["usage"] = response_usage(
            Usage(usage.prompt_tokens, 0, usage.cached_tokens)
        )
        return [self._event("response.completed", response=self._object)]

    def ending(self, reason: FinishReason, usage: Usage | None) -> list[str]:
        """The end of an answer that ran its course, or that was cancelled."""
        status = STATUS[reason]
        frames: list[str] = []
        if not self._item_open and reason is not FinishReason.CANCELLED:
            frames += self._open_item()
        if self._item_open:
            frames += self._close_item(status)
        self._object["status"] = status
        if status == "completed":
            self._object["completed_at"] = int(self._clock())
        if status == "incomplete":
            self._object["incomplete_details"] = {"reason": "max_output_tokens"}
        if usage is not None:
            self._object["usage"] = response_usage(usage)
        frames.append(self._event(f"response.{status}", response=self._object))
        return frames

    def failing(self, refusal: Refusal) -> list[str]:
        """The end of an answer that an error cut: the error, then the response.

        The ``error`` event carries code and status to the letter; the response object
        has few codes of its own, and is the terminal event.
        """
        frames = [self._event("error", **error_fields(refusal))]
        if self._item_open:
            frames += self._close_item("incomplete")
        self._object["status"] = "failed"
        self._object["error"] = {
            "code": OBJECT_CODES.get(refusal.status, "server_error"),
            "message": refusal.message,
            "param": refusal.param,
            "type": refusal.kind,
        }
        frames.append(self._event("response.failed", response=self._object))
        return frames

    def _open_item(self) -> list[str]:
        self._item_open = True
        part = text_part("", [])
        return [
            self._event(
                "response.output_item.added",
                output_index=0,
                item=self._message("in_progress", []),
            ),
            self._event("response.content_part.added", **self._place, part=part),
        ]

    def _close_item(self, status: str) -> list[str]:
        text = "".join(self._texts)
        part = text_part(text, self._logprobs)
        done = "completed" if status == "completed" else "incomplete"
        item = self._message(done, [part])
        self._object["output"] = [item]
        return [
            self._event(
                "response.output_text.done",
                **self._place,
                text=text,
                logprobs=self._logprobs,
            ),
            self._event("response.content_part.done", **self._place, part=part),
            self._event("response.output_item.done", output_index=0, item=item),
        ]

    def _message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._item,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _event(self, kind: str, /, **fields: Any) -> str:
        number, self._sequence = self._sequence, self._sequence + 1
        event = {"type": kind, **fields, **self._lane, "sequence_number": number}
        return encode(event).decode()


def response_object(name: str, model: str, created_s: int) -> dict[str, Any]:
    """A response that has just begun."""
    return {
        "id": name,
        "object": "response",
        "created_at": created_s,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "max_tool_calls": None,
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
        "usage": None,
    }


def text_part(text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    """A part of a message's content."""
    annotations: list[Any] = []
    part: dict[str, Any] = {"type": "output_text", "text": text}
    return part | {"annotations": annotations, "logprobs": logprobs}


def error_fields(refusal: Refusal) -> dict[str, Any]:
    """What an ``error`` event says."""
    fields = refusal.fields()
    if headers := refusal.headers():
        fields["headers"] = {k.decode(): v.decode() for k, v in headers}
    return {"status": refusal.status, "error": fields}


def error_event(
    refusal: Refusal, stream_id: str | None = None, response_id: str | None = None
) -> Note:
    """An ``error`` event of the socket or of a lane, not of a response's numbering."""
    where = {"stream_id": stream_id, "response_id": response_id}
    said = {name: value for name, value in where.items() if value is not None}
    return Note(encode({"type": "error", **error_fields(refusal), **said}).decode())
