"""``/v1/chat/completions``: the body in, chunks and completions out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InvalidRequest
from ..requests import Completion, Conversation, Delta, FinishReason, Usage
from .calls import CallParser, delta_fields, message_fields, parsed
from .chunks import ChunkFrame
from .document import encode, read, refuse_unsupported
from .formats import ResponseFormat, read_format
from .functions import FunctionTool, read_tools
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
    tools: list[FunctionTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    functions: Any = None
    function_call: Any = None
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
    "functions": ([],),
    "function_call": ("none",),
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
    names["grammar"] = "response_format"
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
    messages = conversation(request.messages)
    use = read_tools(request.tools, request.tool_choice, request.parallel_tool_calls)
    grammar = read_format(request.response_format)
    params = sampling_params(
        request,
        defaults,
        max_tokens=limit,
        logprobs=wanted,
        grammar=grammar,
        names=names,
    )
    return Generation(
        prompts=(messages if use is None else Conversation(messages, use),),
        params=params,
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
        new_parser: Makes a parser of one choice's calls; None: there are no functions.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created_s: int,
        *,
        include_usage: bool,
        token_bytes: TokenBytes,
        new_parser: Callable[[], CallParser] | None = None,
    ) -> None:
        self._new_parser = new_parser
        self._parsers: dict[int, CallParser] = {}
        self._frame = ChunkFrame(
            name, "chat.completion.chunk", model, created_s, include_usage=include_usage
        )
        self._token_bytes = token_bytes
        self._suffix = b'},"logprobs":null,"finish_reason":null}]' + self._frame.end

    def opening(self, index: int) -> bytes:
        """A choice's first chunk: who speaks."""
        return self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def delta(self, index: int, delta: Delta) -> bytes:
        """A chunk of text and calls; empty if the delta shows nothing."""
        if self._new_parser is not None:
            return self._calls(index, delta, self._new_parser)
        if delta.logprobs:
            logprobs = self._logprobs(delta)
            return self._chunk(index, {"content": delta.text}, logprobs=logprobs)
        if not delta.text:
            return b""
        head = b'%b[{"index":%d,"delta":{"content":' % (self._frame.start, index)
        return head + encode(delta.text) + self._suffix

    def closing(self, index: int, reason: FinishReason) -> bytes:
        """A choice's last chunk: why it ended, with an empty delta."""
        parser = self._parsers.get(index)
        return self._chunk(index, {}, finish_reason=finish_of(reason, parser))

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
        parser = None if self._new_parser is None else self._new_parser()
        fields: dict[str, Any] = {"content": answer.text}
        if parser is not None:
            fields = message_fields(parser, answer.text)
        return {
            "index": index,
            "message": {"role": "assistant", "refusal": None, **fields},
            "logprobs": self._logprobs(delta),
            "finish_reason": finish_of(answer.finish_reason, parser),
        }

    def _calls(
        self, index: int, delta: Delta, new_parser: Callable[[], CallParser]
    ) -> bytes:
        parser = self._parsers.get(index)
        if parser is None:
            parser = self._parsers[index] = new_parser()
        pieces = parsed(parser, delta.text, last=delta.finish_reason is not None)
        fields, logprobs = delta_fields(pieces), self._logprobs(delta)
        if not fields and logprobs is None:
            return b""
        return self._chunk(index, fields, logprobs=logprobs)

    def _logprobs(self, delta: Delta) -> dict[str, Any] | None:
        if not delta.logprobs:
            return None
        entries = token_logprobs(delta, self._token_bytes)
        return {"content": entries, "refusal": None}

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


def finish_of(reason: FinishReason, parser: CallParser | None) -> str:
    """Why a choice ended, as clients know it."""
    if reason is FinishReason.STOP and parser is not None and parser.num_calls:
        return "tool_calls"
    return FINISH[reason]
