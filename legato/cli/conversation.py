"""A conversation at the terminal: turns kept, replies printed as they come."""

import time

import click

from ..engine import Engine
from ..protocol.requests import ChatMessage
from ..protocol.sampling import SamplingParams

HELP = """/reset          forget the conversation
/system [TEXT]  set the system prompt (empty: the model's own) and begin anew
/stats          the last reply and the engine, in numbers
/quit           leave"""


class Conversation:
    """Turns with one model.

    Args:
        engine: Already started.
        params: Sampling for every reply.
        system: The system prompt, or "" for the template's own.
    """

    def __init__(self, engine: Engine, params: SamplingParams, system: str) -> None:
        self._engine = engine
        self._params = params
        self._system = system
        self._turns: list[ChatMessage] = []
        self._last = "no reply yet"

    @property
    def greeting(self) -> str:
        """One line about the model."""
        context = self._engine.max_context
        return f"{self._engine.name}, {context:,} tokens of context."

    def command(self, line: str) -> str:
        """Carry out a line that begins with a slash, and say what came of it."""
        name, _, rest = line.partition(" ")
        match name:
            case "/help":
                return HELP
            case "/reset":
                self._turns.clear()
                return "(a new conversation)"
            case "/system":
                self._system = rest.strip()
                self._turns.clear()
                whose = "that" if self._system else "the model's own"
                return f"(a new conversation, with {whose} system prompt)"
            case "/stats":
                return self._stats()
            case _:
                return f"no command {name}\n{HELP}"

    async def reply(self, text: str) -> None:
        """Answer, printing text as it comes.

        Cancelling stops the reply; what was said so far stays in the conversation.
        A turn without any answer is taken back.

        Raises:
            LegatoError: As the stream does.
        """
        self._turns.append(ChatMessage("user", text))
        said: list[str] = []
        began_s = time.perf_counter()
        first_s = began_s
        tokens = 0
        try:
            async with self._engine.stream(self._messages(), self._params) as stream:
                async for delta in stream:
                    if delta.text:
                        first_s = time.perf_counter() if not said else first_s
                        said.append(delta.text)
                        click.echo(delta.text, nl=False)
                    tokens += len(delta.token_ids)
        finally:
            if said:
                self._turns.append(ChatMessage("assistant", "".join(said)))
            else:
                self._turns.pop()
            if tokens:
                self._note(tokens, first_s - began_s, time.perf_counter() - first_s)
        click.echo()

    async def settle(self) -> None:
        """Let the engine come to rest, so that its numbers are of this moment."""
        await self._engine.wait_idle()

    def _note(self, tokens: int, first_s: float, rest_s: float) -> None:
        rate = (tokens - 1) / rest_s if tokens > 1 and rest_s > 0 else 0.0
        self._last = (
            f"last reply: {tokens} tokens, first after {first_s:.2f} s, "
            f"then {rate:.1f} tokens/s"
        )

    def _messages(self) -> list[ChatMessage]:
        if not self._system:
            return self._turns
        return [ChatMessage("system", self._system), *self._turns]

    def _stats(self) -> str:
        stats = self._engine.stats()
        core = stats.core
        return (
            f"{self._last}\n"
            f"device: {core.steps} steps, {core.bubble_share:.1%} idle between them\n"
            f"pages: {core.pages_free} free, {core.pages_cached} cached, "
            f"{core.pages_used} used of {core.pages_total}\n"
            f"prompt tokens: {core.prompt_tokens}, {core.cached_tokens} from the cache"
        )
