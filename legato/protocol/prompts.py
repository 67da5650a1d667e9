"""What an answer answers: text, token ids, or a conversation."""

import msgspec

from .tools import ToolCall, ToolUse


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a conversation.

    Args:
        role: ``system``, ``user``, ``assistant`` or ``tool``.
        content: Its text.
        tool_calls: What an assistant called.
        tool_call_id: Which call a tool's turn answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def num_chars(self) -> int:
        """Characters that a client wrote in it."""
        calls = sum(len(call.name) + len(call.arguments) for call in self.tool_calls)
        return len(self.content) + calls


class Conversation(msgspec.Struct, frozen=True):
    """A conversation with functions at hand.

    Args:
        messages: At least one.
        use: The functions.
    """

    messages: tuple[ChatMessage, ...]
    use: ToolUse


Prompt = str | tuple[int, ...] | tuple[ChatMessage, ...] | Conversation


def prompt_chars(prompt: Prompt) -> int:
    """Count the characters of a prompt; those of ids are none."""
    if isinstance(prompt, str):
        return len(prompt)
    if isinstance(prompt, Conversation):
        described = msgspec.json.encode(prompt.use.tools)
        return prompt_chars(prompt.messages) + len(described)
    return sum(item.num_chars for item in prompt if isinstance(item, ChatMessage))
