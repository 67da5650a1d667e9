"""Uvicorn's protocols, with a way to give up on a client that reads nothing.

ASGI can close a connection only behind everything already sent, which such a client
never takes. These two lend the application a handle to cut the line; elsewhere it does
without.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import (
    WebSocketsSansIOProtocol,
)

# How long the close frame of a socket may wait to be read.
CLOSE_GRACE_S = 2.0


class HttpTransport(HttpToolsProtocol):
    """HTTP whose connection can be cut: ``extensions["legato.abort"]()``."""

    def on_message_begin(self) -> None:
        """Add the handle to the scope of each request."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # pyright: ignore[reportAssignmentType] # a TypedDict is a dict
        scope["extensions"] = {"legato.abort": self.transport.abort}


class SocketTransport(WebSocketsSansIOProtocol):
    """A WebSocket that closes at once: ``extensions["legato.close"](code, reason)``."""

    def handle_connect(self, event: Any) -> None:
        """Add the handle to the scope; the application's task starts later."""
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]  # pyright: ignore[reportTypedDictNotRequiredAccess] # a TypedDict is a dict
            extensions["legato.close"] = self.close_now

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
