"""The door of ``WS /v1/realtime``."""

from urllib.parse import parse_qs

from ...protocol.openai.refusal import Refusal
from ..backend import Backend
from ..exchange import read_headers
from ..gate import Gate
from ..judgement import check_model
from ..settings import ServeSettings
from ..socket import Socket, SocketGone
from .session import Session

SUBPROTOCOL = "realtime"


class RealtimeEndpoint:
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
            self._check(socket)
        except Refusal as refusal:
            await socket.refuse(refusal)
            return
        # A browser that offers subprotocols, as it must to send a key, gives up on a
        # server that takes none.
        offered = socket.scope.get("subprotocols", [])
        try:
            await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        except SocketGone:
            return
        session = Session(
            socket, self._engine, self._gate, self._settings, tenant=tenant
        )
        await session.run()

    def _check(self, socket: Socket) -> None:
        query = parse_qs(socket.scope.get("query_string", b"").decode("latin-1"))
        for name, values in query.items():
            if name == "model":
                check_model(values[0], self._engine.name)
            elif name in ("call_id", "intent"):
                raise unsupported(f"{name} is not supported: only sessions of text are")
        beta = read_headers(socket.scope).get("openai-beta", "")
        if "realtime=v1" in beta:
            raise unsupported(
                "the beta's events are not spoken; leave the OpenAI-Beta header out"
            )


def unsupported(message: str) -> Refusal:
    """The refusal of another kind of session."""
    return Refusal(400, "unsupported_parameter", message)
