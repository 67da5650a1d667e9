"""The door of ``WS /v1/chat``."""

from ..backend import Backend
from ..gate import Gate
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .chats import Chats
from .session import Session


class ChatSocketEndpoint:
    """What ``WebSocketChatTransport`` of the SDK speaks to.

    Args:
        engine: Answers.
        gate: Lets requests in.
        settings: Limits.
        chats: Keeps the answers.
    """

    def __init__(
        self, engine: Backend, gate: Gate, settings: ServeSettings, chats: Chats
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._settings = settings
        self._chats = chats

    async def __call__(self, socket: Socket, tenant: str) -> None:
        """Serve one socket to its end.

        Args:
            socket: Not yet accepted.
            tenant: Whose API key it carries, or "".
        """
        try:
            await socket.accept()
        except SocketGone:
            return
        session = Session(
            socket,
            self._engine,
            self._gate,
            self._settings,
            self._chats,
            tenant=tenant,
        )
        await session.run()
