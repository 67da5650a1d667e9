"""The backlog: prompts whose first token is still to come, measured in tokens.

The measure is taken before a prompt is rendered or encoded, from its length alone, so
that a flood is refused before it costs anything. Shared by the open streams; owned by
the front end's loop.
"""

from ..protocol.prompts import prompt_chars
from ..protocol.requests import ChatMessage, Prompt

CHARS_PER_TOKEN = 4


class Backlog:
    """How much waits for its first token."""

    def __init__(self) -> None:
        self.tokens = 0


class Wait:
    """One prompt's share of the backlog, from its opening to its first token.

    Args:
        backlog: Where it counts.
        prompt: What is measured.
    """

    __slots__ = ("_backlog", "_tokens")

    def __init__(self, backlog: Backlog, prompt: Prompt) -> None:
        self._backlog = backlog
        self._tokens = estimate(prompt)
        backlog.tokens += self._tokens

    def end(self) -> None:
        """Count no longer. Idempotent."""
        self._backlog.tokens -= self._tokens
        self._tokens = 0


def estimate(prompt: Prompt) -> int:
    """About how many tokens a prompt has; exact for ids."""
    if isinstance(prompt, tuple) and prompt and isinstance(prompt[0], int):
        return len(prompt)
    if isinstance(prompt, tuple):
        messages = [item for item in prompt if isinstance(item, ChatMessage)]
        return sum(item.num_chars // CHARS_PER_TOKEN + 1 for item in messages)
    return prompt_chars(prompt) // CHARS_PER_TOKEN + 1
