"""The Responses API: what a request for a response says, over HTTP and sockets."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..sampling import SamplingParams, within
from .create import Create
from .document import read, refuse_unsupported
from .extensions import MAX_CREDIT, check_version
from .formats import read_text, text_object
from .generation import Generation, read_tenant
from .input_items import read_input
from .input_listing import listed
from .metadata import check_metadata
from .response_fields import (
    NAMES,
    NEUTRAL,
    REASONING_NEUTRAL,
    SOCKET_NEUTRAL,
    CreateBody,
    CreateFields,
    CreateFrame,
)
from .response_tools import read_response_tools, tools_object
from .sampling import sampling_params
from .scheduling import read_terms

MAX_STREAM_ID = 64
LOGPROBS = "message.output_text.logprobs"


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
    check_neutral(request)
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
    turns = () if request.input is None else read_input(request.input)
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
        use=read_response_tools(
            request.tools, request.tool_choice, request.parallel_tool_calls
        ),
        items=() if request.input is None else listed(request.input),
        instructions=request.instructions or "",
        previous=request.previous_response_id,
        store=request.store is not False,
        echo=echo_of(request, params),
    )


def check_neutral(request: CreateFields) -> None:
    """Refuse what has no effect here, unless it asks for none; and large labels.

    Raises:
        InvalidRequest: Names the field.
    """
    refuse_unsupported(request, NEUTRAL)
    check_metadata(request.metadata)
    if request.reasoning is not None:
        refuse_unsupported(request.reasoning, REASONING_NEUTRAL, "reasoning.")


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
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "reasoning": {
            "effort": request.reasoning and request.reasoning.effort,
            "summary": None,
        },
        "prompt_cache_key": request.prompt_cache_key,
        "safety_identifier": request.safety_identifier,
        "store": request.store is not False,
        "temperature": params.temperature,
        "text": text_object(request.text),
        "tool_choice": request.tool_choice or "auto",
        "tools": tools_object(request.tools),
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
