"""A response to make: a request for one, read and checked."""

from typing import Any

import msgspec

from ..errors import InvalidRequest
from ..requests import ChatMessage, Conversation, Prompt
from ..tools import ToolUse
from .generation import Generation
from .input_items import check_outputs
from .input_listing import InputItems


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """A response to make.

    Args:
        generation: For the engine, but for the prompt, which ``prompt`` makes.
        turns: The new input as a conversation.
        items: The new input as it is listed.
        use: The functions at hand, or None.
        instructions: What stands before everything, or "".
        previous: The response to go on from, or None.
        stream_id: The lane; None is the one without a name, and is not echoed.
        store: Keep it for those who come later.
        generate: False only takes up the prompt.
        resumable: It outlives its socket.
        credit: Tokens that may be sent at first; None: all.
        background: It outlives its HTTP request.
        echo: Fields of the request that the response object repeats.
    """

    generation: Generation
    turns: tuple[ChatMessage, ...]
    items: InputItems
    use: ToolUse | None = None
    instructions: str = ""
    previous: str | None = None
    stream_id: str | None = None
    store: bool = True
    generate: bool = True
    resumable: bool = False
    credit: int | None = None
    background: bool = False
    echo: dict[str, Any] = {}

    def prompt(self, earlier: tuple[ChatMessage, ...]) -> Generation:
        """What to ask the engine.

        Earlier turns stand as they stood, so that what was computed for them is found.

        Args:
            earlier: The conversation up to here.

        Raises:
            InvalidRequest: There is nothing at all to ask, or something answers a call
                that nobody made.
        """
        check_outputs(earlier, self.turns)
        system = (ChatMessage("system", self.instructions),)
        prompt = (*(system if self.instructions else ()), *earlier, *self.turns)
        if not prompt:
            raise InvalidRequest("is required", field="input")
        params = self.generation.params
        if not self.generate:
            params = msgspec.structs.replace(params, max_tokens=1, min_tokens=0)
        asked: Prompt = prompt if self.use is None else Conversation(prompt, self.use)
        return msgspec.structs.replace(self.generation, prompts=(asked,), params=params)
