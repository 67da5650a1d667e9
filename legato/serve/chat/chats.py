"""The answers under way, by the chat they belong to.

A chat has one answer at a time, the latest. Those without a reader are bounded in
number: past that, the one that has waited longest is let go.
"""

import uuid
from collections.abc import Generator
from contextlib import contextmanager

from ...protocol.ai_sdk import Ask
from ...protocol.ai_sdk_stream import UiMessageScript
from ..backend import Backend
from ..gate import Gate
from ..judgement import check_model
from ..settings import ServeSettings
from .turn import Reader, Turn

MAX_WAITING = 64

Key = tuple[str, str]


class Chats:
    """The chats of one server.

    Args:
        engine: Answers.
        gate: Lets readers in.
        settings: Limits.
    """

    def __init__(self, engine: Backend, gate: Gate, settings: ServeSettings) -> None:
        self._engine = engine
        self._gate = gate
        self._settings = settings
        self._turns: dict[Key, Turn] = {}

    def __len__(self) -> int:
        """Answers that are kept."""
        return len(self._turns)

    async def begin(self, ask: Ask, tenant: str) -> Turn:
        """Ask for an answer; it is to be read within the grace period.

        An answer still under way in the same chat ends.

        Args:
            ask: The turn to take.
            tenant: Whose API key the request carries, or "".

        Raises:
            LegatoError: The engine cannot be asked.
        """
        check_model(ask.generation.model, self._engine.name)
        # A chat without a name cannot be come back to; its answer is kept all the same.
        key = (tenant, ask.chat or f"unnamed-{uuid.uuid4().hex}")
        self._make_room(key)
        turn = Turn(
            ask.generation.of_tenant(tenant),
            UiMessageScript(f"msg_{uuid.uuid4().hex}", self._engine.name),
            grace_s=self._settings.resume_grace_s,
            replay_bytes=self._settings.replay_bytes,
            on_gone=lambda gone: self._forget(key, gone),
        )
        self._turns[key] = turn
        try:
            await turn.open(self._engine)
        except BaseException:
            turn.close()
            raise
        return turn

    def _make_room(self, key: Key) -> None:
        before = self._turns.pop(key, None)
        if before is not None:
            # A client that stops an answer and asks anew may be faster than the news
            # of its stopping.
            if before.has_readers:
                before.cancel()
            else:
                before.close()
        waiting = [turn for turn in self._turns.values() if not turn.has_readers]
        for turn in waiting[: max(0, len(waiting) - MAX_WAITING + 1)]:
            turn.close()

    def _forget(self, key: Key, gone: Turn) -> None:
        if self._turns.get(key) is gone:
            del self._turns[key]

    def find(self, chat: str, tenant: str) -> Turn | None:
        """The answer under way in a chat, if it can be read from its beginning."""
        turn = self._turns.get((tenant, chat))
        return turn if turn is not None and turn.is_whole else None

    @contextmanager
    def reading(self, turn: Turn, start: int = 0) -> Generator[Reader]:
        """Read an answer, counted among those that a drain waits for.

        Raises:
            EngineClosed: The server is shutting down.
        """
        with self._gate.admit(), turn.read_from(start) as reader:
            yield reader
