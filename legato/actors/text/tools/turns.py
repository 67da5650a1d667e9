"""Conversations with calls, as chat templates want them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from ....protocol.requests import ChatMessage
from ....protocol.tools import Tool, ToolCall
from .format import ToolFormat

LESSON = """You can call functions. They are described here, one JSON object a line:
{tools}
To call one, write nothing but its name and its arguments as a JSON object between tags:
<tool_call>
{{"name": "the function's name", "arguments": {{"an argument": "its value"}}}}
</tool_call>"""

ID_LENGTH = 9


def described(tool: Tool) -> dict[str, Any]:
    """A function as templates know it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def taught(
    messages: Sequence[ChatMessage], tools: Sequence[Tool]
) -> tuple[ChatMessage, ...]:
    """Say in plain turns what a template that knows no functions cannot say."""
    plain = [_plain(message) for message in messages]
    if tools:
        lines = "\n".join(msgspec.json.encode(described(t)).decode() for t in tools)
        lesson = LESSON.format(tools=lines)
        if plain and plain[0].role == "system":
            first = plain.pop(0)
            lesson = f"{first.content}\n\n{lesson}" if first.content else lesson
        plain.insert(0, ChatMessage("system", lesson))
    return tuple(plain)


def _plain(message: ChatMessage) -> ChatMessage:
    if message.role == "tool":
        text = f"<tool_response>\n{message.content}\n</tool_response>"
        return ChatMessage("user", text)
    if not message.tool_calls:
        return message
    parts = [message.content] if message.content else []
    for call in message.tool_calls:
        name = msgspec.json.encode(call.name).decode()
        body = f'{{"name": {name}, "arguments": {call.arguments}}}'
        parts.append(f"<tool_call>\n{body}\n</tool_call>")
    return ChatMessage(message.role, "\n".join(parts))


def model_turns(
    messages: Sequence[ChatMessage], form: ToolFormat
) -> list[dict[str, Any]]:
    """Conversations as templates that know functions want them."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            turn["tool_calls"] = [_call(call, form) for call in message.tool_calls]
        if message.tool_call_id:
            turn["tool_call_id"] = _id(message.tool_call_id, form)
        turns.append(turn)
    return turns


def _call(call: ToolCall, form: ToolFormat) -> dict[str, Any]:
    arguments: Any
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        # A model that wrote no object is shown what it wrote. To refuse it would end
        # a conversation that nobody can mend.
        arguments = call.arguments
    function = {"name": call.name, "arguments": arguments}
    return {"id": _id(call.id, form), "type": "function", "function": function}


def _id(name: str, form: ToolFormat) -> str:
    """A call's id as the model knows them: Mistral's templates want nine letters."""
    if form.name != "mistral" or (len(name) == ID_LENGTH and name.isalnum()):
        return name
    return hashlib.sha256(name.encode()).hexdigest()[:ID_LENGTH]
