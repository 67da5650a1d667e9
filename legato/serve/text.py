"""``POST /tokenize`` and ``POST /detokenize``: text to token ids and back."""

from collections.abc import Callable
from typing import TypeVar

import anyio
import msgspec

from ..actors.blocking import in_thread
from ..protocol.errors import Overloaded
from ..protocol.tokens import (
    Detokenized,
    Tokenized,
    read_detokenize,
    read_tokenize,
)
from .backend import Backend
from .exchange import Exchange
from .gate import Gate
from .judgement import check_model
from .router import Handler

# The engine's own tokenizing must not starve beside these.
THREADS = 1
MAX_WAITING = 64

T = TypeVar("T")


class TextEndpoint:
    """Encodes and decodes, off the loop.

    Args:
        engine: Whose vocabulary.
        gate: Lets requests in.
    """

    def __init__(self, engine: Backend, gate: Gate) -> None:
        self._engine = engine
        self._gate = gate
        self._threads = anyio.Semaphore(THREADS)

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By path and method."""
        return {
            ("/tokenize", "POST"): self.tokenize,
            ("/detokenize", "POST"): self.detokenize,
        }

    async def tokenize(self, exchange: Exchange) -> None:
        """``POST /tokenize``.

        Raises:
            LegatoError: It cannot be encoded, or too many wait.
        """
        body = await exchange.read_json()
        engine = self._engine
        with self._gate.admit():
            prompt, model = read_tokenize(body)
            check_model(model, engine.name)
            tokens = await self._work(lambda: engine.encode(prompt))
            answer = Tokenized(
                count=len(tokens), max_model_len=engine.max_context, tokens=tokens
            )
            await exchange.respond(200, msgspec.json.encode(answer))

    async def detokenize(self, exchange: Exchange) -> None:
        """``POST /detokenize``.

        Raises:
            LegatoError: Ids that are none, or too many wait.
        """
        body = await exchange.read_json()
        engine = self._engine
        with self._gate.admit():
            tokens, model = read_detokenize(body, engine.vocab_size)
            check_model(model, engine.name)
            text = await self._work(lambda: engine.decode(tokens))
            answer = Detokenized(prompt=text)
            await exchange.respond(200, msgspec.json.encode(answer))

    async def _work(self, work: Callable[[], T]) -> T:
        if self._threads.statistics().tasks_waiting >= MAX_WAITING:
            raise Overloaded("too many texts wait", retry_after_s=1.0)
        async with self._threads:
            return await in_thread(work)
