"""Conversations as clients write them for ``/v1/chat/completions``."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

from ..errors import InvalidRequest
from ..requests import ChatMessage
from ..tools import ToolCall
from .document import Wire, refuse_unsupported

# "developer" is OpenAI's newer word for "system"; templates know only the latter.
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

MAX_MESSAGES = 10_000
MAX_PARTS = 20_000


class Part(Wire, kw_only=True):
    """One part of a message's content: only text can be read.

    The other fields belong to other kinds of parts, which are refused by their type.
    """

    type: str
    text: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    image_url: Any = None
    detail: Any = None
    input_audio: Any = None
    file: Any = None
    file_id: Any = None
    file_data: Any = None
    file_url: Any = None
    filename: Any = None
    refusal: Any = None


class CalledFunction(Wire, kw_only=True):
    """``messages[].tool_calls[].function``."""

    name: str
    arguments: str


class Call(Wire, kw_only=True):
    """``messages[].tool_calls[]``; clients that gather deltas leave ``index`` in."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"
    index: int | None = None


class Message(Wire, kw_only=True):
    """A message of ``/v1/chat/completions``.

    The fields from ``name`` on stand in messages that clients send back as they got
    them; they are accepted empty and otherwise refused by name.
    """

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: Any = None
    refusal: Any = None
    annotations: Any = None
    audio: Any = None
    function_call: Any = None
    reasoning_content: Any = None


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "name": (),
    "refusal": (),
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "reasoning_content": ("",),
}


PART_NEUTRAL: dict[str, tuple[Any, ...]] = {
    name: ()
    for name in Part.__struct_fields__
    if name not in ("type", "text", "annotations", "logprobs")
}


def conversation(messages: Sequence[Message]) -> tuple[ChatMessage, ...]:
    """Read ``messages``.

    Raises:
        InvalidRequest: None at all, an unknown role, or content that is not text.
    """
    if not messages:
        raise InvalidRequest("at least one message is needed", field="messages")
    check_number(messages, "messages")
    check_parts(some for one in messages for some in (one.content, one.tool_calls))
    turns: list[ChatMessage] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        refuse_unsupported(message, NEUTRAL, f"{where}.")
        if message.tool_call_id is not None and message.role != "tool":
            raise InvalidRequest(
                "belongs to the role 'tool' only", field=f"{where}.tool_call_id"
            )
        if message.tool_calls and message.role != "assistant":
            raise InvalidRequest(
                "belongs to the role 'assistant' only", field=f"{where}.tool_calls"
            )
        turns.append(chat_turn(message, where))
    return tuple(turns)


def check_number(messages: Sequence[object], where: str) -> None:
    """Refuse more messages than could be read without holding up everybody else.

    Raises:
        InvalidRequest: With the bound.
    """
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequest(
            f"has at most {MAX_MESSAGES} entries, got {len(messages)}", field=where
        )


def check_parts(contents: Iterable[object], where: str = "messages") -> None:
    """Refuse more parts than could be read without holding up everybody else.

    Args:
        contents: Of all messages; each list among them counts with its length.
        where: The field that has them.

    Raises:
        InvalidRequest: With the bound.
    """
    number = sum(len(parts_of(content)) for content in contents)
    if number > MAX_PARTS:
        raise InvalidRequest(
            f"has at most {MAX_PARTS} parts of content and calls in all, got {number}; "
            "join texts to fewer parts",
            field=where,
        )


def parts_of(content: object) -> Sequence[object]:
    """The parts of some content, if it consists of parts."""
    return cast("list[object]", content) if isinstance(content, list) else ()


def chat_turn(message: Message, where: str) -> ChatMessage:
    """Read one message, with its calls or the call that it answers.

    Raises:
        InvalidRequest: An unknown role, or content that is not text.
    """
    calls = tuple(
        ToolCall(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
    )
    content = "" if calls and message.content is None else message.content
    read = turn(message.role, content, where)
    return ChatMessage(read.role, read.content, calls, message.tool_call_id or "")


def turn(role: str, content: str | list[Part] | None, where: str) -> ChatMessage:
    """Read one message.

    Raises:
        InvalidRequest: An unknown role, or content that is not text.
    """
    if role not in ROLES:
        known = ", ".join(ROLES)
        raise InvalidRequest(
            f"unknown role {role!r}; known are {known}", field=f"{where}.role"
        )
    return ChatMessage(ROLES[role], text_of(content, f"{where}.content"))


def text_of(content: str | list[Part] | None, where: str) -> str:
    """Read content: text, or parts of it.

    Raises:
        InvalidRequest: It is not text.
    """
    if content is None:
        raise InvalidRequest("must be a string or a list of text parts", field=where)
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, part in enumerate(content):
        at = f"{where}[{index}]"
        if part.type not in ("text", "input_text", "output_text"):
            raise InvalidRequest(
                f"only text can be read, got a part of type {part.type!r}",
                field=f"{at}.type",
            )
        if part != Part(type=part.type, text=part.text):
            refuse_unsupported(part, PART_NEUTRAL, f"{at}.")
        if part.text is None:
            raise InvalidRequest("is required", field=f"{at}.text")
        texts.append(part.text)
    return "".join(texts)
