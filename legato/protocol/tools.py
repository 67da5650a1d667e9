"""Functions that a model may call, and the calls it makes.

Knows neither how a client writes them nor how a model does.
"""

from typing import Any, Literal

import msgspec

from .errors import InvalidRequest

MAX_TOOLS = 128


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the model may call.

    Args:
        name: Its name.
        description: What it does, for the model.
        parameters: JSON schema of its arguments, an object; None takes none.
        strict: Calls keep to the schema whatever the model would write.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool = False


class ToolCall(msgspec.Struct, frozen=True):
    """A call that was made.

    Args:
        id: Its name in the conversation.
        name: Of the function.
        arguments: A JSON object, as text.
    """

    id: str
    name: str
    arguments: str


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The functions at hand in a conversation, and what the answer may be.

    Args:
        tools: The functions.
        choice: ``auto``: text or calls; ``required``: at least one call.
        name: With ``required``: of the one function to call; "" leaves it to the model.
        parallel: An answer may have several calls.

    Raises:
        InvalidRequest: Too many, two of one name, or a name that is not among them.
    """

    tools: tuple[Tool, ...]
    choice: Literal["auto", "required"] = "auto"
    name: str = ""
    parallel: bool = True

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        if not 0 < len(names) <= MAX_TOOLS:
            raise InvalidRequest(
                f"1 to {MAX_TOOLS} functions may be given, got {len(names)}",
                field="tools",
            )
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(f"two functions are {name!r}", field="tools")
        if self.name and self.name not in names:
            raise InvalidRequest(
                f"there is no function {self.name!r} among the tools",
                field="tool_choice",
            )

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The functions that the answer may call."""
        return tuple(t for t in self.tools if self.name in ("", t.name))

    @property
    def binds(self) -> bool:
        """Whether the answer must be held to a form."""
        strict = any(tool.strict for tool in self.tools)
        return self.choice == "required" or strict or not self.parallel


class CallBegun(msgspec.Struct, frozen=True, gc=False):
    """A call in an answer begins.

    Args:
        index: Which, from 0.
        name: Of the function.
    """

    index: int
    name: str


class CallPiece(msgspec.Struct, frozen=True, gc=False):
    """More of a call's arguments.

    Args:
        index: Which call's.
        text: A piece of JSON; the pieces joined are the arguments.
    """

    index: int
    text: str


class CallEnded(msgspec.Struct, frozen=True, gc=False):
    """A call is complete: its arguments, and the object around them, are closed.

    Args:
        index: Which.
    """

    index: int


AnswerPiece = str | CallBegun | CallPiece | CallEnded
"""A piece of an answer that may hold calls: plain text, or of a call."""
