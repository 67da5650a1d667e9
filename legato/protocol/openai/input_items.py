"""What a response is asked with: items of the Responses API, read as a conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..errors import InvalidRequest
from ..requests import ChatMessage
from ..tools import ToolCall
from .document import Wire, convert, refuse_unsupported
from .messages import Part, check_number, check_parts, text_of, turn


class Item(Wire, kw_only=True):
    """A message."""

    role: str
    content: str | list[Part]
    type: str = "message"
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class Caller(Wire, kw_only=True):
    """Who made a call: the model itself."""

    type: Literal["direct"]


class CallItem(Wire, kw_only=True):
    """A call that was made, as it stood in an earlier response's output."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None
    caller: Caller | None = None
    namespace: Any = None
    is_async: Literal[False] | None = msgspec.field(name="async", default=None)


class CallOutputItem(Wire, kw_only=True):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[Part]
    id: str | None = None
    status: str | None = None
    caller: Caller | None = None
    name: str | None = None
    namespace: Any = None


KINDS = ("message", "function_call", "function_call_output")
NEUTRAL: dict[str, tuple[Any, ...]] = {"namespace": ()}


def read_input(items: str | Sequence[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    """Read ``input``.

    Calls that stand side by side are one turn, with the assistant's message before
    them if there is one.

    Raises:
        InvalidRequest: Nothing at all, or an item that is not text, a call, or what a
            call gave.
    """
    if isinstance(items, str):
        return (ChatMessage("user", items),)
    if not items:
        raise InvalidRequest("at least one item is needed", field="input")
    check_number(items, "input")
    fields = ("content", "output")
    check_parts((item.get(name) for item in items for name in fields), "input")
    turns: list[ChatMessage] = []
    calls: list[ToolCall] = []
    for index, item in enumerate(items):
        where = f"input[{index}]"
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.append(read_call(item, where))
            continue
        join_calls(turns, calls)
        if kind == "function_call_output":
            turns.append(read_output(item, where))
        elif kind == "message":
            turns.append(read_message(item, where))
        else:
            raise InvalidRequest(
                f"only items of the types {', '.join(KINDS)} are supported, got "
                f"{kind!r}",
                field=f"{where}.type",
            )
    join_calls(turns, calls)
    return tuple(turns)


def read_message(item: Mapping[str, Any], where: str) -> ChatMessage:
    """Read a message.

    Raises:
        InvalidRequest: An unknown role, or content that is not text.
    """
    message = convert(item, Item, where)
    if message.role == "tool":
        raise InvalidRequest(
            "what a function gave is an item of type 'function_call_output'",
            field=f"{where}.role",
        )
    return turn(message.role, message.content, where)


def read_call(item: Mapping[str, Any], where: str) -> ToolCall:
    """Read a call.

    Raises:
        InvalidRequest: It was cut: its arguments are no JSON object. Those of a whole
            one are what the model wrote, for better or worse.
    """
    call = convert(item, CallItem, where)
    refuse_unsupported(call, NEUTRAL, f"{where}.")
    try:
        msgspec.json.decode(call.arguments, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if call.status == "incomplete":
            raise InvalidRequest(
                "must be a JSON object, as text; leave out a call that was cut",
                field=f"{where}.arguments",
            ) from None
    return ToolCall(call.call_id, call.name, call.arguments)


def read_output(item: Mapping[str, Any], where: str) -> ChatMessage:
    """Read what a call gave.

    Raises:
        InvalidRequest: It is not text.
    """
    given = convert(item, CallOutputItem, where)
    refuse_unsupported(given, NEUTRAL, f"{where}.")
    text = text_of(given.output, f"{where}.output")
    return ChatMessage("tool", text, tool_call_id=given.call_id)


def join_calls(turns: list[ChatMessage], calls: list[ToolCall]) -> None:
    """Add calls that stood side by side to the conversation, and forget them."""
    if not calls:
        return
    last = turns[-1] if turns else None
    if last is not None and last.role == "assistant" and not last.tool_calls:
        turns[-1] = msgspec.structs.replace(last, tool_calls=tuple(calls))
    else:
        turns.append(ChatMessage("assistant", "", tuple(calls)))
    calls.clear()


def check_outputs(earlier: Sequence[ChatMessage], turns: Sequence[ChatMessage]) -> None:
    """Refuse what answers a call that nobody made.

    Args:
        earlier: The conversation up to here.
        turns: What is new.

    Raises:
        InvalidRequest: Names the call.
    """
    if not any(one.role == "tool" for one in turns):
        return
    known: set[str] = set()
    for one in (*earlier, *turns):
        known.update(call.id for call in one.tool_calls)
        if one.role == "tool" and one.tool_call_id not in known:
            raise InvalidRequest(
                f"there is no function call {one.tool_call_id!r} before its output; "
                "send the call too, or name its response in previous_response_id",
                field="input",
            )
