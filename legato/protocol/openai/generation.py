"""What a request body comes down to, whichever protocol it was written in."""

from typing import Literal

import msgspec

from ..requests import FinishReason, Prompt
from ..sampling import SamplingParams
from .document import Wire


class StreamOptions(Wire, kw_only=True):
    """``stream_options``."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A request, read and checked.

    Args:
        prompt: For the engine.
        params: For the engine.
        tenant: Who asks, as the client names it.
        model: The model's name, or "" where the client gave none.
        stream: Answer in pieces.
        include_usage: Tell the usage at a stream's end.
        names: The engine's field names to those the client wrote, where they differ.
    """

    prompt: Prompt
    params: SamplingParams
    tenant: str = ""
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    names: dict[str, str] = {}


FINISH: dict[FinishReason, Literal["stop", "length"]] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
}
