"""The events of one response, in order, with dense sequence numbers.

Text travels once, as deltas; the ``done`` events and the terminal one carry it whole,
as the public specification says. Exactly one terminal event ends a response:
``response.completed``, ``response.incomplete``, ``response.failed``, or, for our
``response.cancel``, ``response.cancelled``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..requests import ChatMessage, Delta, FinishReason, Usage
from .calls import CallParser
from .extensions import Note
from .logprobs import TokenBytes
from .refusal import Refusal
from .response_frames import DeltaShape, FrameWriter
from .response_output import ResponseOutput
from .usage import response_usage

encode = msgspec.json.encode

STATUS = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "incomplete",
    FinishReason.CANCELLED: "cancelled",
}
# The response object's own codes are few; everything else is the server's fault.
OBJECT_CODES = {400: "invalid_prompt", 429: "rate_limit_exceeded"}


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
        parser: Tells calls from text; None: there are no functions.
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
        parser: CallParser | None = None,
    ) -> None:
        self._clock = clock
        self._writer = FrameWriter(stream_id)
        first = f"msg_{name.removeprefix('resp_')}"
        self._output = ResponseOutput(self._writer, first, token_bytes, parser)
        self._object = {**response_object(name, model, created_s), **echo}
        self._object["output"] = self._output.items

    @property
    def object(self) -> dict[str, Any]:
        """The response as it is now."""
        return self._object

    @property
    def shape(self) -> DeltaShape:
        """What most of its deltas repeat."""
        return self._output.shape

    @property
    def turns(self) -> tuple[ChatMessage, ...]:
        """The answer so far, as a conversation goes on from it.

        A call that was cut is no part of it: nobody could answer it.
        """
        text, calls = self._output.text, tuple(self._output.calls)
        return (ChatMessage("assistant", text, calls),) if text or calls else ()

    def opening(self) -> list[str]:
        """The response exists, and is being worked on."""
        event = self._writer.event
        return [
            event("response.created", response=self._object),
            event("response.in_progress", response=self._object),
        ]

    def delta(self, delta: Delta) -> list[str]:
        """What is new; nothing if the delta shows nothing."""
        return self._output.take(delta)

    def warmed(self, usage: Usage) -> list[str]:
        """The end of a response that only took up its prompt."""
        self._object["status"] = "completed"
        self._object["completed_at"] = int(self._clock())
        self._object["usage"] = response_usage(
            Usage(usage.prompt_tokens, 0, usage.cached_tokens)
        )
        return [self._writer.event("response.completed", response=self._object)]

    def ending(self, reason: FinishReason, usage: Usage | None) -> list[str]:
        """The end of an answer that ran its course, or that was cancelled."""
        status = STATUS[reason]
        frames = self._output.finish(status)
        self._object["status"] = status
        if status == "completed":
            self._object["completed_at"] = int(self._clock())
        if status == "incomplete":
            self._object["incomplete_details"] = {"reason": "max_output_tokens"}
        if usage is not None:
            self._object["usage"] = response_usage(usage)
        frames.append(self._writer.event(f"response.{status}", response=self._object))
        return frames

    def failing(self, refusal: Refusal) -> list[str]:
        """The end of an answer that an error cut: the error, then the response.

        The ``error`` event carries code and status to the letter; the response object
        has few codes of its own, and is the terminal event.
        """
        frames = [self._writer.event("error", **error_fields(refusal))]
        frames += self._output.finish("failed")
        self._object["status"] = "failed"
        self._object["error"] = {
            "code": OBJECT_CODES.get(refusal.status, "server_error"),
            "message": refusal.message,
            "param": refusal.param,
            "type": refusal.kind,
        }
        frames.append(self._writer.event("response.failed", response=self._object))
        return frames


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
