"""A conversation whose history the server holds."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..protocol.tools import ToolCall
from .answer import Answer

if TYPE_CHECKING:
    from .client import Client


class Conversation:
    """Turns that follow one another; each sends only what is new.

        chat = client.conversation(instructions="Be brief.")
        async for text in chat.say("Name a river."): …
        async for text in chat.say("And another?"): …

    Args:
        client: Whose connection.
        instructions: Sent with every turn.
        options: Of every turn, as for ``Client.stream``.
    """

    def __init__(
        self, client: "Client", instructions: str | None, options: dict[str, Any]
    ) -> None:
        self._client = client
        self._options = options
        self._instructions = instructions
        self.last: Answer | None = None
        self.last_id = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last answer, once it ended."""
        return () if self.last is None else self.last.calls

    def say(
        self, input: str | list[dict[str, Any]], **options: Any
    ) -> AsyncGenerator[str]:
        """Say something; read the answer piece by piece, and ``calls`` after it.

        A turn that fails or is cancelled leaves the conversation as it was.

        Args:
            input: The new turn: text, or items, such as what functions gave that the
                last answer called.
            options: Of this turn, over those of the conversation.

        Raises:
            LegatoError: As reading an ``Answer`` does.
        """
        return self._turn(input, {**self._options, **options})

    async def _turn(
        self, said: str | list[dict[str, Any]], options: dict[str, Any]
    ) -> AsyncGenerator[str]:
        if self._instructions is not None:
            options.setdefault("instructions", self._instructions)
        if self.last_id:
            options["previous_response_id"] = self.last_id
        async with self._client.stream(said, **options) as answer:
            self.last = answer
            async for piece in answer:
                yield piece
            if answer.status in ("completed", "incomplete"):
                self.last_id = answer.id
