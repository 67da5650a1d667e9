"""The AI SDK's chat protocol: the chunks of an answer, and the frames around them.

A chunk is JSON; over HTTP it travels as a server-sent event, over WebSocket inside a
frame that names its request and its place in the answer.
"""

from typing import Any

from .openai.document import encode
from .openai.generation import FINISH
from .openai.refusal import Refusal
from .requests import Delta, FinishReason, Usage

TEXT = "text-0"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-vercel-ai-ui-message-stream", b"v1"),
    # Proxies such as nginx hold events back unless told not to.
    (b"x-accel-buffering", b"no"),
]
DONE = b"data: [DONE]\n\n"


class UiMessageScript:
    """One answer as chunks.

    Args:
        name: The message's id.
        model: The model's name.
    """

    def __init__(self, name: str, model: str) -> None:
        self._name = name
        self._model = model
        self._begun = False
        self._text_open = False

    @property
    def begun(self) -> bool:
        """Whether anything was told yet."""
        return self._begun

    def delta(self, delta: Delta) -> list[bytes]:
        """What a delta adds; the first opens the message, text or not."""
        chunks: list[bytes] = []
        if not self._begun:
            self._begun = True
            chunks.append(encode({"type": "start", "messageId": self._name}))
            chunks.append(encode({"type": "start-step"}))
        if not delta.text:
            return chunks
        if not self._text_open:
            self._text_open = True
            chunks.append(encode({"type": "text-start", "id": TEXT}))
        text = encode(delta.text)
        chunks.append(b'{"type":"text-delta","id":"%b","delta":%b}' % (TEXT_ID, text))
        return chunks

    def ending(self, reason: FinishReason, usage: Usage | None) -> list[bytes]:
        """The end of an answer that ran its course, or that was cancelled."""
        chunks = self._close_text()
        if reason not in FINISH:
            return [*chunks, encode({"type": "abort"})]
        metadata: dict[str, Any] = {"model": self._model}
        if usage is not None:
            metadata["usage"] = ui_usage(usage)
        finish = {
            "type": "finish",
            "finishReason": FINISH[reason],
            "messageMetadata": metadata,
        }
        return [*chunks, encode({"type": "finish-step"}), encode(finish)]

    def failing(self, refusal: Refusal) -> list[bytes]:
        """The end of an answer that an error cut."""
        error = {"type": "error", "errorText": refusal.message}
        return [*self._close_text(), encode(error)]

    def _close_text(self) -> list[bytes]:
        if not self._text_open:
            return []
        self._text_open = False
        return [encode({"type": "text-end", "id": TEXT})]


TEXT_ID = TEXT.encode()


def ui_usage(usage: Usage) -> dict[str, Any]:
    """What an answer took, in the SDK's words."""
    cached = usage.cached_tokens
    return {
        "inputTokens": usage.prompt_tokens,
        "inputTokenDetails": {
            "cacheReadTokens": cached,
            "noCacheTokens": usage.prompt_tokens - cached,
        },
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.prompt_tokens + usage.output_tokens,
    }


class Frames:
    """The frames that answer one request on a socket.

    Args:
        request_id: The client's name for it.
    """

    def __init__(self, request_id: str) -> None:
        self._request = {"requestId": request_id}
        self._head = encode({"type": "chunk", **self._request})[:-1].decode()

    def start(self) -> str:
        """An answer to resume is there."""
        return self._frame("start")

    def chunk(self, sequence: int, chunk: bytes) -> str:
        """A chunk in its place."""
        return f'{self._head},"sequence":{sequence},"chunk":{chunk.decode()}}}'

    def end(self) -> str:
        """Nothing more follows."""
        return self._frame("end")

    def no_active(self) -> str:
        """There is no answer to resume."""
        return self._frame("no-active")

    def error(self, refusal: Refusal) -> str:
        """The request could not be served, and has ended."""
        return self._frame("error", errorText=refusal.message)

    def _frame(self, kind: str, **fields: Any) -> str:
        return encode({"type": kind, **self._request, **fields}).decode()
