"""Uvicorn's WebSocket, with what ASGI cannot say: send at once, and close at once.

Both are handles that the scope lends to the application; under another server it does
without, and its tasks send and close as ASGI has it. And with bounds on what a client
can make it keep: fragments are joined as they come, and where the client does not read,
only its last ping is answered, as RFC 6455 (section 5.5.3) allows.
"""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import (
    WebSocketsSansIOProtocol,
)
from websockets.exceptions import InvalidHeader
from websockets.headers import parse_subprotocol
from websockets.http11 import Response
from websockets.protocol import State

from ..protocol.openai.refusal import Refusal
from .portions import Portions
from .transport import closing_answer

# How long the close frame may wait to be read.
CLOSE_GRACE_S = 2.0
# First bytes of unfragmented frames (RFC 6455, section 5.2); no extension is in use.
TEXT, BINARY = 0x81, 0x82
NO_TOKENS = (
    "Sec-WebSocket-Protocol must list names of letters, digits and !#$%&'*+-.^_`|~ "
    "alone; a key that has other characters goes in the header Authorization"
)


class SocketTransport(WebSocketsSansIOProtocol):
    """A WebSocket that sends and closes at once.

    ``extensions["legato.send"](message)`` says whether it did;
    ``extensions["legato.close"](code, reason)`` does not wait for the client.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._late_pong = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection."""
        super().connection_made(transport)
        self._portions = Portions(
            self.loop, self.transport, self._parse, self._resume_reading
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Parse nothing any more."""
        self._portions.drop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first are the whole handshake, as the HTTP parser took it."""
        if self.handshake_initiated:
            self._portions.take(data)
            return
        super().data_received(data)
        # Its own parser has narrower limits, and without an answer to what it cannot
        # take the connection would stay open for nothing.
        if not (self.handshake_initiated or self.transport.is_closing()):
            reason = self.conn.handshake_exc or "not a WebSocket handshake"
            self._refuse(Refusal(400, "bad_request", str(reason)))

    def shutdown(self) -> None:
        """Close as the server goes; one whose client is just leaving is left to it.

        Uvicorn's would raise, and the server with it, before the others are closed.
        """
        if self.handshake_complete and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()

    async def receive(self) -> Any:
        """Give the application its next message."""
        message = await super().receive()
        if self._portions.waiting:
            self.transport.pause_reading()
        return message

    async def send(self, message: Any) -> None:
        """Send for the application; a handshake that it refuses is complete."""
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # uvicorn would log its absence as an error

    def handle_cont(self, event: Any) -> None:
        """Join a fragment to its message: many tiny ones would take much memory."""
        whole = self.frames[0]
        if not isinstance(whole, bytearray):
            whole = self.frames[0] = bytearray(whole)  # pyright: ignore[reportArgumentType, reportCallIssue] # it is bytes again before anybody looks
        whole += event.data
        if event.fin:
            self.frames = [bytes(whole)]
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Give the application a message, if it is one: text is UTF-8."""
        try:
            if self.curr_msg_data_type == "text":
                self.frames[0].decode()
        except UnicodeDecodeError:
            self.frames = []
            if not self.close_sent:
                self.conn.send_close(1007, "a text message must be UTF-8")
                self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer pings; of those from a client that does not read, the last."""
        pongs = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._late_pong = pongs[-1]

    def resume_writing(self) -> None:
        """Send what waited for the client to read."""
        super().resume_writing()
        pong, self._late_pong = self._late_pong, b""
        if pong and not self.close_sent:
            self.transport.write(pong)

    def handle_connect(self, event: Any) -> None:
        """Add the handle to the scope; the application's task starts later."""
        try:
            for value in event.headers.get_all("Sec-WebSocket-Protocol"):
                parse_subprotocol(value)
        except InvalidHeader:
            # Uvicorn would repeat the value, which may be a key.
            self._refuse(Refusal(400, "bad_request", NO_TOKENS))
            return
        # Asked twice, here and by uvicorn, which would send the refusal as plain text.
        response = self.conn.accept(event)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self.conn.send_response(in_json(response))
            self._end_handshake(b"".join(self.conn.data_to_send()))
            return
        super().handle_connect(event)
        if not self.close_sent:
            extensions: dict[str, Any] = self.scope["extensions"]  # pyright: ignore[reportTypedDictNotRequiredAccess] # a TypedDict is a dict
            extensions["legato.close"] = self.close_now
            extensions["legato.send"] = self.send_now

    def _parse(self, data: bytes) -> bool:
        super().data_received(data)
        if self.transport.is_closing():
            self._portions.drop()
        return True

    def _resume_reading(self) -> None:
        if not self.read_paused:
            self.transport.resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        self._end_handshake(closing_answer(refusal))

    def _end_handshake(self, answer: bytes) -> None:
        self.handshake_complete = self.close_sent = True
        self.transport.write(answer)
        self.transport.close()

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


def in_json(response: Response) -> Response:
    """Say in the API's own form why a handshake is refused.

    Args:
        response: Plain text; its first line has the reason. What its status asks for,
            such as ``Upgrade``, stands in its headers, and stays.
    """
    reason = response.body.decode().partition("\n")[0]
    body = Refusal(response.status_code, "bad_request", reason).body()
    headers = response.headers.copy()
    for name, value in (
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ):
        del headers[name]
        headers[name] = value
    return replace(response, headers=headers, body=body)


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
