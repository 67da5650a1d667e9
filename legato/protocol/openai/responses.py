"""The Responses API: what a request for a response says, over HTTP and sockets.

The fields are OpenAI's; ``resumable`` and ``credit``, for sockets alone, are ours.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..requests import ChatMessage
from ..sampling import SamplingParams, within
from .document import read, refuse_unsupported
from .extensions import MAX_CREDIT, check_version
from .formats import TextFields, read_text, text_object
from .generation import Generation, read_tenant
from .messages import input_items
from .responses_items import InputItems, listed
from .sampling import sampling_params
from .scheduling import SchedulingFields, read_terms

MAX_STREAM_ID = 64
LOGPROBS = "message.output_text.logprobs"


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
    tools: Any = None
    tool_choice: Any = None
    max_tool_calls: Any = None
    text: TextFields | None = None
    reasoning: Any = None
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
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "max_tool_calls": (),
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


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """A response to make.

    Args:
        generation: For the engine, but for the prompt, which ``prompt`` makes.
        turns: The new input as a conversation.
        items: The new input as it is listed.
        instructions: What stands before everything, or "".
        previous: The response to go on from, or None.
        stream_id: The lane; None is the one without a name, and is not echoed.
        store: Keep it for those who come later.
        generate: False only takes up the prompt.
        resumable: It outlives its socket.
        credit: Tokens that may be sent at first; None: all.
        background: It outlives its HTTP request.
        echo: Fields of the request that the response object repeats.
    """

    generation: Generation
    turns: tuple[ChatMessage, ...]
    items: InputItems
    instructions: str = ""
    previous: str | None = None
    stream_id: str | None = None
    store: bool = True
    generate: bool = True
    resumable: bool = False
    credit: int | None = None
    background: bool = False
    echo: dict[str, Any] = {}

    def prompt(self, earlier: tuple[ChatMessage, ...]) -> Generation:
        """What to ask the engine.

        Earlier turns stand as they stood, so that what was computed for them is found.

        Args:
            earlier: The conversation up to here.

        Raises:
            InvalidRequest: There is nothing at all to ask.
        """
        system = (ChatMessage("system", self.instructions),)
        prompt = (*(system if self.instructions else ()), *earlier, *self.turns)
        if not prompt:
            raise InvalidRequest("is required", field="input")
        params = self.generation.params
        if not self.generate:
            params = msgspec.structs.replace(params, max_tokens=1, min_tokens=0)
        return msgspec.structs.replace(
            self.generation, prompts=(prompt,), params=params
        )


def read_frame(frame: bytes, defaults: Mapping[str, float]) -> Create:
    """Read a ``response.create``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(frame, CreateFrame)
    check_version(request.legato)
    refuse_unsupported(request, SOCKET_NEUTRAL)
    check_stream_id(request.stream_id)
    if request.credit is not None:
        within(request.credit, "credit", 0, MAX_CREDIT)
    create = read_fields(
        request, defaults, needs_input=request.generate is not False, stream=True
    )
    return msgspec.structs.replace(
        create,
        stream_id=request.stream_id,
        generate=request.generate is not False,
        resumable=bool(request.resumable),
        credit=request.credit,
    )


def read_body(body: bytes, defaults: Mapping[str, float]) -> Create:
    """Read the body of ``POST /v1/responses``.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    request = read(body, CreateBody)
    background = bool(request.background)
    if background and request.store is False:
        raise InvalidRequest("must be kept to be fetched later", field="store")
    create = read_fields(request, defaults, stream=bool(request.stream))
    echo = create.echo | {"background": background}
    return msgspec.structs.replace(create, background=background, echo=echo)


def read_fields(
    request: CreateFields,
    defaults: Mapping[str, float],
    *,
    stream: bool,
    needs_input: bool = True,
) -> Create:
    """Read what both ways share.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    refuse_unsupported(request, NEUTRAL)
    if request.input is None and needs_input:
        raise InvalidRequest("is required", field="input")
    params = sampling_params(
        request,
        defaults,
        max_tokens=request.max_output_tokens,
        logprobs=wanted_logprobs(request),
        grammar=read_text(request.text),
        names=NAMES,
    )
    turns = () if request.input is None else input_items(request.input, None)
    generation = Generation(
        prompts=(turns,),
        params=params,
        terms=read_terms(request),
        tenant=read_tenant(request.user, request.safety_identifier),
        model=request.model or "",
        stream=stream,
        names=NAMES,
    )
    return Create(
        generation=generation,
        turns=turns,
        items=() if request.input is None else listed(request.input),
        instructions=request.instructions or "",
        previous=request.previous_response_id,
        store=request.store is not False,
        echo=echo_of(request, params),
    )


def wanted_logprobs(request: CreateFields) -> int | None:
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


def echo_of(request: CreateFields, params: SamplingParams) -> dict[str, Any]:
    """The fields of a request that its response repeats."""
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": request.metadata or {},
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "safety_identifier": request.safety_identifier,
        "store": request.store is not False,
        "temperature": params.temperature,
        "text": text_object(request.text),
        "top_p": params.top_p,
        "top_logprobs": request.top_logprobs or 0,
        "user": request.user,
    }


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
