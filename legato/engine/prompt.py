"""A prompt as users write it, made into the engine's own words and checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..protocol.errors import InvalidRequest, UnknownOption
from ..protocol.prompts import prompt_chars
from ..protocol.requests import ChatMessage, Conversation, Prompt

AnyPrompt = (
    str
    | Sequence[int]
    | Sequence[ChatMessage]
    | Sequence[Mapping[str, Any]]
    | Conversation
)


def as_prompt(value: AnyPrompt, max_chars: int) -> Prompt:
    """Take text, token ids, or a conversation of messages or mappings.

    Raises:
        InvalidRequest: It is none of them, it is empty, or it is too long to look at.
    """
    if isinstance(value, str):
        _check_length(len(value), max_chars)
        return value
    if isinstance(value, Conversation):
        messages = tuple(_message(m, n) for n, m in enumerate(value.messages))
        _check_length(prompt_chars(value), max_chars)
        return Conversation(messages, value.use)
    items: Sequence[Any] = value
    if not isinstance(items, Sequence) or isinstance(items, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance] # users may pass anything
        raise InvalidRequest(
            "must be text, a sequence of token ids, or a sequence of messages",
            field="prompt",
        )
    if not items:
        raise InvalidRequest("must not be empty", field="prompt")
    if all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        _check_length(len(items), max_chars)
        return tuple(items)
    messages = tuple(_message(item, index) for index, item in enumerate(items))
    _check_length(prompt_chars(messages), max_chars)
    return messages


def _message(item: Any, index: int) -> ChatMessage:
    where = f"messages[{index}]"
    if isinstance(item, ChatMessage):
        item = msgspec.structs.asdict(item)
    if not isinstance(item, Mapping):
        raise InvalidRequest(
            f"must be a message with role and content, got {type(item).__name__}",
            field=where,
        )
    fields: dict[Any, Any] = {**item}
    for name in fields:
        if name not in ChatMessage.__struct_fields__:
            raise UnknownOption(str(name), ChatMessage.__struct_fields__)
    try:
        return msgspec.convert(fields, ChatMessage)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error), field=where) from error


def _check_length(length: int, max_chars: int) -> None:
    if length > max_chars:
        raise InvalidRequest(
            f"has {length} characters, more than max_prompt_chars ({max_chars})",
            field="prompt",
        )
