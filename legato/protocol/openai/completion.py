"""``/v1/completions``: the body in, chunks and completions out."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidRequest
from ..requests import Completion, Delta, FinishReason, Prompt, Usage
from .chunks import ChunkFrame
from .document import encode, read, refuse_unsupported
from .generation import FINISH, Generation, StreamOptions, read_n, read_tenant
from .logprobs import CompletionLogprobs, TokenBytes
from .sampling import sampling_params
from .scheduling import SchedulingFields, read_terms
from .usage import chat_usage

# The protocol's own default, unlike chat's, which is the context's end.
DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SchedulingFields, kw_only=True):
    """The body. Fields typed ``Any`` are known and have no effect here."""

    prompt: str | list[str | int | list[int]]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    logprobs: int | None = None
    user: str | None = None
    n: int | None = None
    echo: bool | None = None
    best_of: Any = None
    suffix: Any = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": ("",),
}


def read_completion(body: bytes, defaults: Mapping[str, float]) -> Generation:
    """Read a body.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, CompletionRequest)
    prompts = read_prompts(request.prompt)
    n = read_n(request.n, len(prompts))
    # The best n of n are all of them.
    refuse_unsupported(request, {**NEUTRAL, "best_of": (n,)})
    limit = request.max_tokens
    if limit is None:
        limit = max(DEFAULT_MAX_TOKENS, request.min_tokens or 0)
    silent = limit == 0 and bool(request.echo)
    options = request.stream_options
    return Generation(
        prompts=prompts,
        params=sampling_params(
            request,
            defaults,
            max_tokens=1 if silent else limit,
            logprobs=request.logprobs,
            prompt_logprobs=request.logprobs if request.echo else None,
            names={"prompt_logprobs": "logprobs"},
        ),
        n=n,
        terms=read_terms(request),
        tenant=read_tenant(request.user),
        model=request.model or "",
        stream=bool(request.stream),
        include_usage=bool(options and options.include_usage),
        echo=bool(request.echo),
        silent=silent,
    )


def read_prompts(prompt: str | list[str | int | list[int]]) -> tuple[Prompt, ...]:
    """Read ``prompt``: a string, token ids, or a list of strings or of token ids.

    Raises:
        InvalidRequest: Nothing, or a mixture.
    """
    if isinstance(prompt, str):
        return (prompt,)
    # Looked at by the interpreter's own loops: a body may hold a million ids.
    kinds = set(map(type, prompt))
    if kinds == {int}:
        return (_ids(prompt, "prompt"),)
    if len(kinds) != 1:
        raise InvalidRequest(
            "must be a string, a list of token ids, or a list of prompts that are all "
            "strings or all token ids",
            field="prompt",
        )
    read_n(None, len(prompt))  # before many are walked over
    return tuple(
        _ids(one, f"prompt[{number}]") if isinstance(one, list) else str(one)
        for number, one in enumerate(prompt)
    )


def _ids(tokens: Sequence[Any], where: str) -> tuple[int, ...]:
    if not tokens:
        raise InvalidRequest("at least one token id is needed", field=where)
    for odd in (min(tokens), max(tokens)):
        if not 0 <= odd < 2**31:
            where = f"{where}[{tokens.index(odd)}]"
            raise InvalidRequest(f"{odd} is not a token id", field=where)
    return tuple(tokens)


class CompletionAnswer:
    """The answers to one request, as chunks or whole.

    Args:
        name: The completion's id.
        model: The model's name.
        created_s: Unix time.
        include_usage: Chunks carry ``usage``, null but in the last.
        token_bytes: The bytes behind a token id.
        echoes: What each choice's text begins with, by its index; none for nothing.
        scored: The echoes come with log-probabilities, and so not before them.
    """

    def __init__(
        self,
        name: str,
        model: str,
        created_s: int,
        *,
        include_usage: bool,
        token_bytes: TokenBytes,
        echoes: Sequence[str] = (),
        scored: bool = False,
    ) -> None:
        self._echoes = echoes
        self._scored = scored
        self._frame = ChunkFrame(
            name, "text_completion", model, created_s, include_usage=include_usage
        )
        self._token_bytes = token_bytes
        self._characters: dict[int, int] = {}
        self._suffix = b',"logprobs":null,"finish_reason":null}]' + self._frame.end

    def opening(self, index: int) -> bytes:
        """The prompt, where it is to be repeated; else nothing."""
        echo = "" if self._scored else self._echo(index)
        return self._chunk(index, echo) if echo else b""

    def delta(self, index: int, delta: Delta) -> bytes:
        """A chunk of text; empty if the delta shows nothing."""
        if delta.logprobs or delta.prompt:
            echo = self._echo(index) if delta.prompt else ""
            logprobs = self._logprobs(index, delta)
            return self._chunk(index, echo + delta.text, logprobs=logprobs)
        if not delta.text:
            return b""
        head = b'%b[{"index":%d,"text":' % (self._frame.start, index)
        return head + encode(delta.text) + self._suffix

    def closing(self, index: int, reason: FinishReason) -> bytes:
        """A choice's last chunk: why it ended, without text."""
        return self._chunk(index, "", finish_reason=FINISH[reason])

    def usage(self, usage: Usage) -> bytes:
        """The chunk after the last, for those who asked."""
        return self._frame.usage(usage)

    def whole(self, answers: Sequence[Completion], usage: Usage) -> bytes:
        """All choices in one piece."""
        choices = [self._choice(index, one) for index, one in enumerate(answers)]
        return encode(
            {**self._frame.head, "choices": choices, "usage": chat_usage(usage)}
        )

    def _choice(self, index: int, answer: Completion) -> dict[str, Any]:
        delta = Delta(
            answer.text, answer.token_ids, answer.logprobs, prompt=answer.prompt
        )
        told = answer.logprobs or answer.prompt
        return {
            "index": index,
            "text": self._echo(index) + answer.text,
            "logprobs": self._logprobs(index, delta) if told else None,
            "finish_reason": FINISH[answer.finish_reason],
        }

    def _echo(self, index: int) -> str:
        return self._echoes[index] if self._echoes else ""

    def _logprobs(self, index: int, delta: Delta) -> dict[str, Any]:
        before, told = self._characters.get(index, 0), delta.prompt
        lists = CompletionLogprobs(self._token_bytes, before)
        if told is not None:
            lists.add(told.token_ids, told.logprobs)
            before += len(self._echo(index))
        lists.add(delta.token_ids, delta.logprobs)
        self._characters[index] = before + len(delta.text)
        return lists.object

    def _chunk(
        self,
        index: int,
        text: str,
        *,
        logprobs: object = None,
        finish_reason: object = None,
    ) -> bytes:
        choice = {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self._frame.start + encode([choice]) + self._frame.end


def echoes(request: Generation, token_bytes: TokenBytes) -> tuple[str, ...]:
    """What each choice's text begins with; nothing unless the request wants it."""
    if not request.echo:
        return ()
    texts: list[str] = []
    for prompt in request.prompts:
        assert isinstance(prompt, str | tuple), "completions have no conversations"
        if isinstance(prompt, str):
            texts.append(prompt)
        else:
            ids = [token for token in prompt if isinstance(token, int)]
            texts.append(b"".join(map(token_bytes, ids)).decode("utf-8", "replace"))
    return tuple(text for text in texts for _ in range(request.n))
