"""Responses WebSocket mode: what a client's frames say.

``response.create`` is OpenAI's, body and lanes alike. ``response.cancel`` is ours: it
names a response (``response_id``) or a lane (``stream_id``), or neither and then means
the lane without a name.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..sampling import SamplingParams
from .document import Wire, broken, read, refuse_unsupported
from .generation import Generation, read_tenant
from .messages import input_items
from .sampling import sampling_params
from .scheduling import SchedulingFields, read_terms

MAX_STREAM_ID = 64
LOGPROBS = "message.output_text.logprobs"


class CreateFrame(SchedulingFields, kw_only=True):
    """``response.create``. Fields typed ``Any`` are known and have no effect here."""

    type: str
    stream_id: str | None = None
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
    stream: Any = None
    stream_options: Any = None
    store: Any = None
    background: Any = None
    background_options: Any = None
    generate: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    tools: Any = None
    tool_choice: Any = None
    max_tool_calls: Any = None
    text: Any = None
    reasoning: Any = None
    truncation: Any = None
    service_tier: Any = None
    context_management: Any = None
    access_programs: Any = None
    image: Any = None
    moderation: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "stream": (True,),
    "stream_options": ({}, {"include_obfuscation": False}),
    "store": (False,),
    "background": (False,),
    "background_options": (),
    "generate": (True,),
    "previous_response_id": (),
    "conversation": (),
    "prompt": (),
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "max_tool_calls": (),
    "text": ({}, {"format": {"type": "text"}}),
    "reasoning": ({},),
    "truncation": ("disabled",),
    "service_tier": ("auto", "default"),
    "context_management": ([],),
    "access_programs": (),
    "image": (),
    "moderation": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": ("in_memory",),
}


NAMES = {
    "max_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "prompt": "input",
    "messages": "input",
}
"""The engine's field names to those of this protocol."""


class CancelFrame(Wire, kw_only=True):
    """``response.cancel``."""

    type: str
    response_id: str | None = None
    stream_id: str | None = None


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """A response to make.

    Args:
        generation: For the engine.
        stream_id: The lane; None is the one without a name, and is not echoed.
        echo: Fields of the request that the response object repeats.
    """

    generation: Generation
    stream_id: str | None
    echo: dict[str, Any]


class Envelope(msgspec.Struct):
    """The part of a frame that says what it is and where it belongs."""

    type: Any = None
    stream_id: Any = None


KINDS = ("response.create", "response.cancel")


def open_envelope(frame: bytes) -> Envelope:
    """Read a frame's type and lane; the lane only if it is usable.

    Raises:
        InvalidRequest: Broken JSON, or not an object.
    """
    try:
        envelope = msgspec.json.decode(frame, type=Envelope)
    except msgspec.ValidationError:
        raise InvalidRequest("a frame must be one JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(frame, error) from None
    if not isinstance(envelope.stream_id, str):
        envelope.stream_id = None
    return envelope


def check_kind(kind: object) -> str:
    """Refuse a frame of a type nobody knows.

    Raises:
        InvalidRequest: Names ``type``, and the nearest known one.
    """
    if kind is None:
        raise InvalidRequest("is required", field="type")
    if not isinstance(kind, str):
        raise InvalidRequest("must be a string", field="type")
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidRequest(f"unknown event type {kind!r}{hint}", field="type")
    return kind


def read_create(frame: bytes, defaults: Mapping[str, float]) -> Create:
    """Read a ``response.create``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, CreateFrame)
    refuse_unsupported(request, NEUTRAL)
    check_stream_id(request.stream_id)
    if request.input is None:
        raise InvalidRequest("is required", field="input")
    params = sampling_params(
        request,
        defaults,
        max_tokens=request.max_output_tokens,
        logprobs=wanted_logprobs(request),
        names=NAMES,
    )
    generation = Generation(
        prompts=(input_items(request.input, request.instructions),),
        params=params,
        terms=read_terms(request),
        tenant=read_tenant(request.user, request.safety_identifier),
        model=request.model or "",
        stream=True,
        names=NAMES,
    )
    echo = echo_of(request, params)
    return Create(generation=generation, stream_id=request.stream_id, echo=echo)


def wanted_logprobs(request: CreateFrame) -> int | None:
    """Read how many of the likeliest tokens to report; None reports nothing.

    Raises:
        InvalidRequest: ``include`` asks for anything but log-probabilities.
    """
    for name in request.include or ():
        if name != LOGPROBS:
            raise InvalidRequest(f"{name!r} is not supported", field="include")
    if request.top_logprobs is None and request.include:
        return 0
    return request.top_logprobs


def echo_of(request: CreateFrame, params: SamplingParams) -> dict[str, Any]:
    """The fields of a request that its response repeats."""
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": request.metadata or {},
        "prompt_cache_key": request.prompt_cache_key,
        "safety_identifier": request.safety_identifier,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_logprobs": request.top_logprobs or 0,
        "user": request.user,
    }


def read_cancel(frame: bytes) -> CancelFrame:
    """Read a ``response.cancel``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, CancelFrame)
    check_stream_id(request.stream_id)
    return request


def check_stream_id(stream_id: str | None) -> None:
    """Refuse a lane's name that is empty or long.

    Raises:
        InvalidRequest: Names ``stream_id``.
    """
    if stream_id is not None and not 0 < len(stream_id) <= MAX_STREAM_ID:
        raise InvalidRequest(
            f"must have 1 to {MAX_STREAM_ID} characters, got {len(stream_id)}",
            field="stream_id",
        )
