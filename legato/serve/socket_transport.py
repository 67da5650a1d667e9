"""Uvicorn's WebSocket, with what ASGI cannot say: send at once, and close at once.

Both are handles that the scope lends to the application; under another server it does
without, and its tasks send and close as ASGI has it.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import (
    WebSocketsSansIOProtocol,
)
from websockets.protocol import State

from ..protocol.openai.refusal import Refusal
from .transport import closing_answer

# How long the close frame may wait to be read.
CLOSE_GRACE_S = 2.0
# First bytes of unfragmented frames (RFC 6455, section 5.2); no extension is in use.
TEXT, BINARY = 0x81, 0x82


class SocketTransport(WebSocketsSansIOProtocol):
    """A WebSocket that sends and closes at once.

    ``extensions["legato.send"](message)`` says whether it did;
    ``extensions["legato.close"](code, reason)`` does not wait for the client.
    """

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first are the whole handshake, as the HTTP parser took it.

        Its own parser has narrower limits, and without an answer to what it cannot
        take the connection would stay open for nothing.
        """
        super().data_received(data)
        if not (self.handshake_initiated or self.transport.is_closing()):
            reason = self.conn.handshake_exc or "not a WebSocket handshake"
            self.transport.write(
                closing_answer(Refusal(400, "bad_request", str(reason)))
            )
            self.transport.close()

    def handle_connect(self, event: Any) -> None:
        """Add the handle to the scope; the application's task starts later."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]  # pyright: ignore[reportTypedDictNotRequiredAccess] # a TypedDict is a dict
            extensions["legato.close"] = self.close_now
            extensions["legato.send"] = self.send_now

    def send_now(self, message: str | bytes) -> bool:
        """Send a message at once, without a task, a queue or a frame object.

        Returns:
            Whether it went out. If not, the client reads too slowly or is gone, and
            the application's own ``send`` waits or says so.
        """
        if self.close_sent or not self.writable.is_set():
            return False
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            return False
        self.transport.write(framed(message))
        return True

    def close_now(self, code: int, reason: str) -> None:
        """Send a close frame behind what waits, and do not wait long for it."""
        if self.close_sent or self.transport.is_closing():
            return
        self.stop_keepalive()
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            # The answering close frame must be read.
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(CLOSE_GRACE_S, self.transport.abort)


def framed(message: str | bytes) -> bytes:
    """The bytes of a message as one unfragmented frame of a server."""
    kind, payload = TEXT, message
    if isinstance(payload, str):
        payload = payload.encode()
    else:
        kind = BINARY
    size = len(payload)
    if size < 126:
        head = bytes((kind, size))
    elif size < 1 << 16:
        head = bytes((kind, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((kind, 127)) + size.to_bytes(8, "big")
    return head + payload
