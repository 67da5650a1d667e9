"""Functions as clients write them for the Responses API: without an inner object."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..errors import InvalidRequest
from ..tools import Tool, ToolUse
from .document import Wire, convert, refuse_unsupported
from .functions import check_choice, check_name, check_number, tool_use


class FlatFunction(Wire, kw_only=True):
    """``tools[]``. Calls are held to the schema unless ``strict`` is false."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    allowed_callers: Any = None
    defer_loading: Literal[False] | None = None
    output_schema: Any = None
    is_async: Literal[False] | None = msgspec.field(name="async", default=None)


class FlatChoice(Wire, kw_only=True):
    """``tool_choice`` as an object."""

    type: Literal["function"]
    name: str


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "allowed_callers": (["direct"],),
    "output_schema": (),
}

Tools = Sequence[Mapping[str, Any]]
Choice = str | Mapping[str, Any]


def read_response_tools(
    tools: Tools | None, choice: Choice | None, parallel: bool | None
) -> ToolUse | None:
    """Read ``tools``, ``tool_choice`` and ``parallel_tool_calls``.

    Returns:
        None if there is nothing to call.

    Raises:
        InvalidRequest: Names the field at fault.
    """
    check_number(tools)
    known = tuple(
        read_flat(tool, f"tools[{number}]") for number, tool in enumerate(tools or ())
    )
    name = ""
    if isinstance(choice, Mapping):
        check_kind(choice, "tool_choice", FlatChoice)
        name = convert(choice, FlatChoice, "tool_choice").name
        choice = "required"
    if not known:
        if choice == "required":
            raise InvalidRequest("needs tools to choose from", field="tool_choice")
        check_choice(choice)
        return None
    return tool_use(known, choice, name, parallel)


def read_flat(tool: Mapping[str, Any], where: str) -> Tool:
    """Read one function.

    Raises:
        InvalidRequest: It is another kind of tool, or its name is not one.
    """
    check_kind(tool, where, FlatFunction)
    function = convert(tool, FlatFunction, where)
    refuse_unsupported(function, NEUTRAL, f"{where}.")
    check_name(function.name, f"{where}.name")
    return Tool(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters,
        strict=function.strict is not False,
    )


def check_kind(said: Mapping[str, Any], where: str, kind: type[Wire]) -> None:
    """Refuse, by its name, what is no function.

    Raises:
        InvalidRequest: It has another type, or the shape of chat completions.
    """
    name = said.get("type")
    if name is not None and name != "function":
        raise InvalidRequest(
            f"{name!r} is not supported, only 'function' is", field=f"{where}.type"
        )
    if "function" in said:
        fields = ", ".join(name for name in kind.__struct_fields__[1:5])
        raise InvalidRequest(
            f"is the form of chat completions; here {fields} stand beside type",
            field=f"{where}.function",
        )


def tools_object(tools: Tools | None) -> list[dict[str, Any]]:
    """``tools`` as the response object repeats them."""
    return [
        {
            "type": "function",
            "name": tool["name"],
            "description": tool.get("description"),
            "parameters": tool.get("parameters"),
            "strict": tool.get("strict") is not False,
        }
        for tool in tools or ()
    ]
