"""The AI SDK's chat over HTTP: a stream of UI messages, and its resumption."""

from ...protocol.ai_sdk import read_post
from ...protocol.ai_sdk_stream import DONE, HEADERS
from ..backend import Backend
from ..exchange import Exchange
from ..gate import Gate
from ..router import Handler, NamedHandler
from .chats import Chats
from .turn import Turn

# The second is where the SDK's transports look unless told otherwise.
CHAT_PATHS = ("/v1/chat", "/api/chat")


class ChatEndpoint:
    """What ``DefaultChatTransport`` of the SDK speaks to.

    Args:
        engine: Answers.
        gate: Lets requests in.
        chats: Keeps the answers.
    """

    def __init__(self, engine: Backend, gate: Gate, chats: Chats) -> None:
        self._engine = engine
        self._gate = gate
        self._chats = chats

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By path and method."""
        return {(path, "POST"): self.send for path in CHAT_PATHS}

    def named_routes(self) -> dict[tuple[str, str], NamedHandler]:
        """The same for paths that name a chat."""
        return {(f"{path}/{{id}}/stream", "GET"): self.resume for path in CHAT_PATHS}

    async def send(self, exchange: Exchange) -> None:
        """``POST``: take a turn.

        A client that leaves may come back within the grace period.

        Raises:
            LegatoError: It cannot be served; nothing was sent yet.
            ClientGone: The client left.
        """
        body = await exchange.read_json()
        with self._gate.admit():
            ask = read_post(body, self._engine.default_params())
            turn = await self._chats.begin(ask, exchange.tenant)
        await exchange.while_connected(lambda: self._tell(exchange, turn))

    async def resume(self, exchange: Exchange, chat: str) -> None:
        """``GET``: the answer under way from its beginning, or 204.

        Raises:
            LegatoError: The server is shutting down.
            ClientGone: The client left.
        """
        turn = self._chats.find(chat, exchange.tenant)
        if turn is None:
            await exchange.start(204, [])
            await exchange.finish()
            return
        await exchange.while_connected(lambda: self._tell(exchange, turn))

    async def _tell(self, exchange: Exchange, turn: Turn) -> None:
        with self._chats.reading(turn) as reader:
            while True:
                _, chunks = await reader.read()
                # Nothing is sent before the first chunk, so that a request refused by
                # the tokenizer or the scheduler still gets a status of its own.
                if not exchange.started:
                    await exchange.start(200, HEADERS)
                if not chunks:
                    await exchange.finish(DONE)
                    return
                await exchange.write(
                    b"".join(b"data: %b\n\n" % chunk for chunk in chunks)
                )
