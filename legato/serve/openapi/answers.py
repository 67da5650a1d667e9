"""What answers look like, as structs: for the description, and for nothing else.

Answers are written by hand where they are hot; these say what comes out. Tests hold
real answers against them, without a field more or less.
"""

from typing import Any, Literal

from ...protocol.openai.document import Wire


class ErrorObject(Wire):
    """Why a request was refused."""

    message: str
    type: str
    param: str | None
    code: str


class Refused(Wire):
    """An error."""

    error: ErrorObject


class PromptDetails(Wire):
    """Of the prompt's tokens."""

    cached_tokens: int


class Usage(Wire):
    """What a request took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Likely(Wire):
    """A token and its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class Chosen(Likely):
    """The token that was sampled, and the likeliest in its place."""

    top_logprobs: list[Likely]


class ChatLogprobs(Wire):
    """One entry a token."""

    content: list[Chosen]
    refusal: None


class ChatChoice(Wire):
    """One answer."""

    index: int
    message: dict[str, Any]
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(Wire):
    """A conversation's next turn, ``n`` times."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: None
    choices: list[ChatChoice]
    usage: Usage


class TextLogprobs(Wire):
    """Lists side by side, one entry a token."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Wire):
    """One answer."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"]


class TextCompletion(Wire):
    """A text's continuation, ``n`` times for each prompt."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: None
    choices: list[TextChoice]
    usage: Usage


class Response(Wire):
    """A response; what it has beside the fields of its request."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    completed_at: int | None
    error: dict[str, Any] | None
    incomplete_details: dict[str, str] | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None
    metadata: dict[str, str]
    model: str
    output: list[dict[str, Any]]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: dict[str, str | None]
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: str
    usage: dict[str, Any] | None
    user: str | None


class ResponseDeleted(Wire):
    """A response is forgotten."""

    id: str
    object: Literal["response"]
    deleted: bool


class InputItemList(Wire):
    """What a response was asked with."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str
    last_id: str
    has_more: bool


class ModelEntry(Wire, omit_defaults=True):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_window: int = 0


class ModelList(Wire):
    """The models there are."""

    object: Literal["list"]
    data: list[ModelEntry]


class HealthReport(Wire, omit_defaults=True):
    """How the server is."""

    status: Literal["ready", "starting", "stalled", "draining", "failed", "closed"]
    model: str
    cause: str = ""


class VersionReport(Wire):
    """The version."""

    version: str


class BatchingShown(Wire):
    """The strategy in force, and why."""

    strategy: str
    why: str


class BatchingSet(Wire):
    """The strategy now in force, whole."""

    batching: dict[str, Any]
