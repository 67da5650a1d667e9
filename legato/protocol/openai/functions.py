"""Functions as clients write them for ``/v1/chat/completions``."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from ..errors import InvalidRequest
from ..tools import MAX_TOOLS, Tool, ToolUse
from .document import Wire, convert

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Function(Wire, kw_only=True):
    """``tools[].function``."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(Wire, kw_only=True):
    """``tools[]``."""

    type: Literal["function"]
    function: Function


class FunctionName(Wire, kw_only=True):
    """``tool_choice.function``."""

    name: str


class NamedChoice(Wire, kw_only=True):
    """``tool_choice`` as an object."""

    type: Literal["function"]
    function: FunctionName


def read_tools(
    tools: Sequence[FunctionTool] | None,
    choice: str | dict[str, Any] | None,
    parallel: bool | None,
) -> ToolUse | None:
    """Read ``tools``, ``tool_choice`` and ``parallel_tool_calls``.

    Returns:
        None if there is nothing to call.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    name = ""
    if isinstance(choice, dict):
        name = convert(choice, NamedChoice, "tool_choice").function.name
        choice = "required"
    if not tools:
        if choice == "required":
            raise InvalidRequest("needs tools to choose from", field="tool_choice")
        check_choice(choice)
        return None
    check_number(tools)
    known = tuple(
        read_function(tool.function, f"tools[{number}].function")
        for number, tool in enumerate(tools)
    )
    return tool_use(known, choice, name, parallel)


def read_function(function: Function, where: str) -> Tool:
    """Read one function.

    Raises:
        InvalidRequest: Its name is not one.
    """
    check_name(function.name, f"{where}.name")
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters,
        strict=bool(function.strict),
    )


def check_number(tools: Sequence[object] | None) -> None:
    """Refuse more functions than there may be, before they are read.

    Raises:
        InvalidRequest: With the bound.
    """
    if tools and len(tools) > MAX_TOOLS:
        raise InvalidRequest(
            f"1 to {MAX_TOOLS} functions may be given, got {len(tools)}", field="tools"
        )


def check_name(name: str, where: str) -> None:
    """Refuse what is no name of a function.

    Raises:
        InvalidRequest: Says what is one.
    """
    if not NAME.fullmatch(name):
        raise InvalidRequest("must have 1 to 64 letters, digits, - or _", field=where)


def tool_use(
    tools: tuple[Tool, ...], choice: str | None, name: str, parallel: bool | None
) -> ToolUse | None:
    """Put functions and the choice among them together; None for no choice at all.

    Raises:
        InvalidRequest: An unknown choice, or a function that is not there.
    """
    check_choice(choice)
    if choice == "none":
        return None
    return ToolUse(
        tools=tools,
        choice="required" if choice == "required" else "auto",
        name=name,
        parallel=parallel is not False,
    )


def check_choice(choice: str | None) -> None:
    """Refuse a choice that nobody knows.

    Raises:
        InvalidRequest: With those known.
    """
    if choice not in (None, "auto", "none", "required"):
        raise InvalidRequest(
            f"must be auto, none, required or a function, got {choice!r}",
            field="tool_choice",
        )
