"""The fields of a request for a response, over HTTP and sockets.

They are OpenAI's; ``resumable`` and ``credit``, for sockets alone, are ours.
"""

from typing import Any

from .document import Wire
from .formats import TextFields
from .scheduling import SchedulingFields


class Reasoning(Wire, kw_only=True):
    """``reasoning``: there is none, so that only none can be asked for."""

    effort: Any = None
    summary: Any = None
    generate_summary: Any = None
    context: Any = None
    mode: Any = None


REASONING_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "effort": ("none",),
    "summary": (),
    "generate_summary": (),
    "context": ("auto",),
    "mode": ("standard",),
}


class CreateFields(SchedulingFields, kw_only=True):
    """What both ways share. Fields typed ``Any`` are known and have no effect here."""

    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    model: str | None = None
    max_output_tokens: int | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    parallel_tool_calls: bool | None = None
    stream_options: Any = None
    store: bool | None = None
    background_options: Any = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_tool_calls: Any = None
    text: TextFields | None = None
    reasoning: Reasoning | None = None
    truncation: Any = None
    service_tier: Any = None
    context_management: Any = None
    access_programs: Any = None
    image: Any = None
    moderation: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None


class CreateFrame(CreateFields, kw_only=True):
    """``response.create``, on a socket."""

    type: str
    stream_id: str | None = None
    generate: bool | None = None
    stream: Any = None
    background: Any = None
    resumable: bool | None = None
    credit: int | None = None
    legato: Any = None


class CreateBody(CreateFields, kw_only=True):
    """The body of ``POST /v1/responses``."""

    stream: bool | None = None
    background: bool | None = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "stream_options": ({}, {"include_obfuscation": False}),
    "background_options": (),
    "conversation": (),
    "prompt": (),
    "max_tool_calls": (),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "context_management": ([],),
    "access_programs": (),
    "image": (),
    "moderation": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": ("in_memory",),
}


SOCKET_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "stream": (True,),
    "background": (False,),
}


NAMES = {
    "max_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "prompt": "input",
    "messages": "input",
    "grammar": "text.format",
}
"""The engine's field names to those of this protocol."""
