"""The door of ``WS /v1/responses``."""

from ...protocol.openai.extensions import VERSION
from ..backend import Backend
from ..gate import Gate
from ..keys import KeyRing
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .authentication import authenticate
from .codec import CODECS, JsonCodec
from .registry import Registry
from .session import Session

HEADERS = [(b"legato-extensions", str(VERSION).encode())]


class ResponsesEndpoint:
    """Accepts sockets and gives each a session.

    Args:
        engine: Answers.
        gate: Lets responses in.
        registry: Keeps what outlives a socket.
        keys: Of those who may come in.
        settings: Limits.
    """

    def __init__(
        self,
        engine: Backend,
        gate: Gate,
        registry: Registry,
        keys: KeyRing,
        settings: ServeSettings,
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._registry = registry
        self._keys = keys
        self._settings = settings

    async def __call__(self, socket: Socket, tenant: str | None) -> None:
        """Serve one socket to its end.

        Args:
            socket: Not yet accepted.
            tenant: Whose API key it carries, "" where none is needed; None: it must
                still bring one.
        """
        offered: list[str] = socket.scope.get("subprotocols", [])
        chosen = next((name for name in offered if name in CODECS), None)
        codec = CODECS[chosen]() if chosen is not None else JsonCodec()
        try:
            await socket.accept(chosen, HEADERS)
            if tenant is None:
                deadline_s = self._settings.handshake_deadline_s
                tenant = await authenticate(socket, codec, self._keys, deadline_s)
        except SocketGone:
            return
        if tenant is None:
            return
        session = Session(
            socket,
            codec,
            self._engine,
            self._gate,
            self._registry,
            self._keys,
            self._settings,
            tenant=tenant,
        )
        await session.run()
