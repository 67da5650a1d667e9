"""The door of ``WS /v1/responses``."""

from ..backend import Backend
from ..gate import Gate
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .session import Session


class ResponsesEndpoint:
    """Accepts sockets and gives each a session.

    Args:
        engine: Answers.
        gate: Lets responses in.
        settings: Limits.
    """

    def __init__(self, engine: Backend, gate: Gate, settings: ServeSettings) -> None:
        self._engine = engine
        self._gate = gate
        self._settings = settings

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
            socket, self._engine, self._gate, self._settings, tenant=tenant
        )
        await session.run()
