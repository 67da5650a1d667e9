"""One WebSocket, as ASGI has it: handshake, text frames in, text frames out, the end.

Knows nothing of what the frames say. Sending is for one task, receiving for another.
"""

from collections.abc import Callable, Sequence

from starlette.types import Receive, Scope, Send

from ..protocol.openai.refusal import Refusal

Header = tuple[bytes, bytes]
SendNow = Callable[[str | bytes], bool]


class SocketGone(Exception):
    """The client left."""


class Socket:
    """A WebSocket.

    Args:
        scope: ASGI's.
        receive: ASGI's.
        send: ASGI's.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._open = False
        self._send_now: SendNow | None = scope.get("extensions", {}).get("legato.send")

    async def accept(
        self, subprotocol: str | None = None, headers: Sequence[Header] = ()
    ) -> None:
        """Complete the handshake.

        Args:
            headers: Beside the handshake's own.
            subprotocol: The one chosen of those the client offers. Without one it is
                served all the same; what it offered, such as a key, is not echoed.

        Raises:
            SocketGone: The client left meanwhile.
        """
        message = await self._receive()
        if message["type"] != "websocket.connect":
            raise SocketGone
        accept: dict[str, object] = {"type": "websocket.accept"}
        if subprotocol is not None:
            accept["subprotocol"] = subprotocol
        if headers:
            accept["headers"] = list(headers)
        await self._push(accept)
        self._open = True

    async def refuse(self, refusal: Refusal) -> None:
        """End the handshake with an HTTP error: 403 where the server knows no other."""
        try:
            await self._receive()
            if "websocket.http.response" not in self.scope.get("extensions", {}):
                await self._push({"type": "websocket.close", "code": 1008})
                return
            headers = [(b"content-type", b"application/json"), *refusal.headers()]
            await self._push(
                {
                    "type": "websocket.http.response.start",
                    "status": refusal.status,
                    "headers": headers,
                }
            )
            await self._push(
                {"type": "websocket.http.response.body", "body": refusal.body()}
            )
        except SocketGone:
            pass

    async def receive(self) -> str | bytes:
        """Wait for the next message: text, or bytes if it is binary.

        Raises:
            SocketGone: The client left.
        """
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._open = False
            raise SocketGone
        text: str | None = message.get("text")
        if text is not None:
            return text
        return message.get("bytes") or b""

    async def send(self, message: str | bytes) -> None:
        """Send a text or binary message; waits while the client reads too slowly.

        Raises:
            SocketGone: The client left.
        """
        kind = "text" if isinstance(message, str) else "bytes"
        await self._push({"type": "websocket.send", kind: message})

    def send_now(self, message: str | bytes) -> bool:
        """Send a message at once, where the server lends a way to.

        Returns:
            Whether it is sent. If not, ``send`` will do, or say that the client left.
        """
        return self._send_now is not None and self._open and self._send_now(message)

    async def close(self, code: int, reason: str) -> None:
        """Close, with a reason.

        A client that reads nothing could hold up its own closing for ever; a transport
        of ours is told not to wait.
        """
        if not self._open:
            return
        self._open = False
        cut = self.scope.get("extensions", {}).get("legato.close")
        if cut is not None:
            cut(code, reason)
            return
        try:
            await self._push(
                {"type": "websocket.close", "code": code, "reason": reason}
            )
        except SocketGone:
            pass

    async def _push(self, message: dict[str, object]) -> None:
        try:
            await self._send(message)
        except (OSError, RuntimeError) as error:
            # Servers say OSError, or RuntimeError after a close of theirs.
            raise SocketGone from error
