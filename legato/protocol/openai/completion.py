"""``/v1/completions``: the body in, chunks and completions out."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..requests import Completion, Delta, FinishReason, Prompt, Usage
from .document import read, refuse_unsupported
from .generation import FINISH, Generation, StreamOptions
from .logprobs import TokenBytes, completion_logprobs
from .sampling import SamplingFields, sampling_params
from .usage import chat_usage

encode = msgspec.json.encode

# The protocol's own default, unlike chat's, which is the context's end.
DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SamplingFields, kw_only=True):
    """The body. Fields typed ``Any`` are known and have no effect here."""

    prompt: str | list[str | int | list[int]]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    logprobs: int | None = None
    user: str | None = None
    n: Any = None
    best_of: Any = None
    echo: Any = None
    suffix: Any = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
}


def read_completion(body: bytes, defaults: Mapping[str, float]) -> Generation:
    """Read a body.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, CompletionRequest)
    refuse_unsupported(request, NEUTRAL)
    limit = request.max_tokens
    if limit is None:
        limit = max(DEFAULT_MAX_TOKENS, request.min_tokens or 0)
    options = request.stream_options
    return Generation(
        prompt=one_prompt(request.prompt),
        params=sampling_params(
            request, defaults, max_tokens=limit, logprobs=request.logprobs
        ),
        tenant=request.user or "",
        model=request.model or "",
        stream=bool(request.stream),
        include_usage=bool(options and options.include_usage),
    )


def one_prompt(prompt: str | list[str | int | list[int]]) -> Prompt:
    """Read ``prompt``: a string, token ids, or a list that holds one of these.

    Raises:
        InvalidRequest: Nothing, a mixture, or several prompts.
    """
    if isinstance(prompt, str):
        return prompt
    # Looked at by the interpreter's own loops: a body may hold a million ids.
    kinds = set(map(type, prompt))
    if kinds == {int}:
        return _ids(prompt)
    if len(prompt) != 1:
        raise InvalidRequest(
            "must be one string or one list of token ids; send one request for each "
            "prompt",
            field="prompt",
        )
    only = prompt[0]
    return _ids(only) if isinstance(only, list) else str(only)


def _ids(tokens: Sequence[Any]) -> tuple[int, ...]:
    if not tokens:
        raise InvalidRequest("at least one token id is needed", field="prompt")
    for odd in (min(tokens), max(tokens)):
        if not 0 <= odd < 2**31:
            where = f"prompt[{tokens.index(odd)}]"
            raise InvalidRequest(f"{odd} is not a token id", field=where)
    return tuple(tokens)


class CompletionAnswer:
    """One answer, as chunks or whole.

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
        self._head: dict[str, Any] = {
            "id": name,
            "object": "text_completion",
            "created": created_s,
            "model": model,
            "system_fingerprint": None,
        }
        self._token_bytes = token_bytes
        self._characters = 0
        self._start = encode(self._head)[:-1] + b',"choices":'
        self._end = b',"usage":null}' if include_usage else b"}"
        self._prefix = self._start + b'[{"index":0,"text":'
        self._suffix = b',"logprobs":null,"finish_reason":null}]' + self._end

    def opening(self) -> bytes:
        """Nothing: text completions begin with text."""
        return b""

    def delta(self, delta: Delta) -> bytes:
        """A chunk of text; empty if the delta shows nothing."""
        if delta.logprobs:
            return self._chunk(delta.text, logprobs=self._logprobs(delta))
        if not delta.text:
            return b""
        return self._prefix + encode(delta.text) + self._suffix

    def closing(self, reason: FinishReason) -> bytes:
        """The last chunk: why it ended, without text."""
        return self._chunk("", finish_reason=FINISH[reason])

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last, for those who asked."""
        return self._start + b'[],"usage":' + encode(chat_usage(usage)) + b"}"

    def whole(self, answer: Completion) -> bytes:
        """The answer in one piece."""
        delta = Delta(answer.text, answer.token_ids, answer.logprobs)
        choice = {
            "index": 0,
            "text": answer.text,
            "logprobs": self._logprobs(delta) if answer.logprobs else None,
            "finish_reason": FINISH[answer.finish_reason],
        }
        usage = chat_usage(answer.usage)
        return encode({**self._head, "choices": [choice], "usage": usage})

    def _logprobs(self, delta: Delta) -> dict[str, Any]:
        before, self._characters = self._characters, self._characters + len(delta.text)
        return completion_logprobs(delta, self._token_bytes, before)

    def _chunk(
        self, text: str, *, logprobs: object = None, finish_reason: object = None
    ) -> bytes:
        choice = {
            "index": 0,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self._start + encode([choice]) + self._end
