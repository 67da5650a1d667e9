"""Legato: streaming LLM inference with no silence between tokens.

    from legato import Engine, SamplingParams

The names below are loaded when first used, so that ``import legato`` and
``legato --help`` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .engine import Engine, EngineSettings, EngineStats, FakeModel, Stream
    from .protocol.errors import (
        ConnectionLost,
        ContextOverflow,
        DeadlineExceeded,
        EngineClosed,
        EngineFailed,
        EngineStalled,
        InvalidModel,
        InvalidRequest,
        InvalidSetting,
        LegatoError,
        NotAdmitted,
        Overloaded,
        UnknownOption,
    )
    from .protocol.grammar import Grammar
    from .protocol.prompts import Conversation
    from .protocol.requests import (
        ChatMessage,
        Completion,
        Delta,
        FinishReason,
        PromptLogprobs,
        Usage,
    )
    from .protocol.sampling import SamplingParams
    from .protocol.tools import (
        CallBegun,
        CallEnded,
        CallPiece,
        Tool,
        ToolCall,
        ToolUse,
    )

_ROOMS = {
    ".engine": ("Engine", "EngineSettings", "EngineStats", "FakeModel", "Stream"),
    ".protocol.errors": (
        "ConnectionLost",
        "ContextOverflow",
        "DeadlineExceeded",
        "EngineClosed",
        "EngineFailed",
        "EngineStalled",
        "InvalidModel",
        "InvalidRequest",
        "InvalidSetting",
        "LegatoError",
        "NotAdmitted",
        "Overloaded",
        "UnknownOption",
    ),
    ".protocol.grammar": ("Grammar",),
    ".protocol.prompts": ("Conversation",),
    ".protocol.requests": (
        "ChatMessage",
        "Completion",
        "Delta",
        "FinishReason",
        "PromptLogprobs",
        "Usage",
    ),
    ".protocol.sampling": ("SamplingParams",),
    ".protocol.tools": (
        "CallBegun",
        "CallEnded",
        "CallPiece",
        "Tool",
        "ToolCall",
        "ToolUse",
    ),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "CallBegun",
    "CallEnded",
    "CallPiece",
    "ChatMessage",
    "Completion",
    "ConnectionLost",
    "ContextOverflow",
    "Conversation",
    "DeadlineExceeded",
    "Delta",
    "Engine",
    "EngineClosed",
    "EngineFailed",
    "EngineSettings",
    "EngineStalled",
    "EngineStats",
    "FakeModel",
    "FinishReason",
    "Grammar",
    "InvalidModel",
    "InvalidRequest",
    "InvalidSetting",
    "LegatoError",
    "NotAdmitted",
    "Overloaded",
    "PromptLogprobs",
    "SamplingParams",
    "Stream",
    "Tool",
    "ToolCall",
    "ToolUse",
    "UnknownOption",
    "Usage",
    "__version__",
]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module 'legato' has no attribute {name!r}")
    return getattr(import_module(room, __name__), name)
