"""``/v1/chat/completions``: the body in, chunks and completions out."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidRequest
from ..requests import Completion, Delta, FinishReason, Usage
from .chunks import ChunkFrame
from .document import encode, read, refuse_unsupported
from .generation import FINISH, Generation, StreamOptions, read_n, read_tenant
from .logprobs import TokenBytes, token_logprobs
from .messages import Message, conversation
from .sampling import sampling_params
from .scheduling import SchedulingFields, read_terms
from .usage import chat_usage


class ChatRequest(SchedulingFields, kw_only=True):
    """The body. Fields typed ``Any`` are known and have no effect here."""

    messages: list[Message]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: dict[str, str] | None = None
    n: int | None = None
    store: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    service_tier: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    verbosity: Any = None
    web_search_options: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    moderation: Any = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "store": (False,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": ("in_memory",),
    "moderation": (),
}


def read_chat(body: bytes, defaults: Mapping[str, float]) -> Generation:
    """Read a body.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, ChatRequest)
    refuse_unsupported(request, NEUTRAL)
    names = {"prompt": "messages", "logprobs": "top_logprobs"}
    limit = request.max_tokens
    if request.max_completion_tokens is not None:
        if limit not in (None, request.max_completion_tokens):
            raise InvalidRequest(
                "differs from max_completion_tokens; give one of them",
                field="max_tokens",
            )
        limit = request.max_completion_tokens
        names["max_tokens"] = "max_completion_tokens"
    if request.top_logprobs is not None and not request.logprobs:
        raise InvalidRequest("needs logprobs: true", field="top_logprobs")
    wanted = (request.top_logprobs or 0) if request.logprobs else None
    options = request.stream_options
    return Generation(
        prompts=(conversation(request.messages),),
        params=sampling_params(
            request, defaults, max_tokens=limit, logprobs=wanted, names=names
        ),
        n=read_n(request.n),
        terms=read_terms(request),
        tenant=read_tenant(request.user, request.safety_identifier),
        model=request.model or "",
        stream=bool(request.stream),
        include_usage=bool(options and options.include_usage),
        names=names,
    )


class ChatAnswer:
    """The answers to one request, as chunks or whole.

    A chunk is a prepared prefix, the text, and a prepared suffix: the part that repeats
    with every token is encoded once.

    Args:
        name: The completion's id.
        model: The model's name.
        created_s: Unix time.
        include_usage: Chunks carry ``usage``, null but in the last.
        token_bytes: The bytes behind a token id.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created_s: int,
        *,
        include_usage: bool,
        token_bytes: TokenBytes,
    ) -> None:
        self._frame = ChunkFrame(
            name, "chat.completion.chunk", model, created_s, include_usage=include_usage
        )
        self._token_bytes = token_bytes
        self._suffix = b'},"logprobs":null,"finish_reason":null}]' + self._frame.end

    def opening(self, index: int) -> bytes:
        """A choice's first chunk: who speaks."""
        return self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def delta(self, index: int, delta: Delta) -> bytes:
        """A chunk of text; empty if the delta shows nothing."""
        if delta.logprobs:
            entries = token_logprobs(delta, self._token_bytes)
            logprobs = {"content": entries, "refusal": None}
            return self._chunk(index, {"content": delta.text}, logprobs=logprobs)
        if not delta.text:
            return b""
        head = b'%b[{"index":%d,"delta":{"content":' % (self._frame.start, index)
        return head + encode(delta.text) + self._suffix

    def closing(self, index: int, reason: FinishReason) -> bytes:
        """A choice's last chunk: why it ended, with an empty delta."""
        return self._chunk(index, {}, finish_reason=FINISH[reason])

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last, for those who asked."""
        return self._frame.usage(usage)

    def whole(self, answers: Sequence[Completion], usage: Usage) -> bytes:
        """All choices in one piece."""
        choices = [self._choice(index, one) for index, one in enumerate(answers)]
        return encode(
            {
                **self._frame.head,
                "object": "chat.completion",
                "choices": choices,
                "usage": chat_usage(usage),
            }
        )

    def _choice(self, index: int, answer: Completion) -> dict[str, Any]:
        delta = Delta(answer.text, answer.token_ids, answer.logprobs)
        entries = token_logprobs(delta, self._token_bytes)
        logprobs = {"content": entries, "refusal": None} if answer.logprobs else None
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": FINISH[answer.finish_reason],
        }

    def _chunk(
        self,
        index: int,
        delta: object,
        *,
        logprobs: object = None,
        finish_reason: object = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self._frame.start + encode([choice]) + self._frame.end
