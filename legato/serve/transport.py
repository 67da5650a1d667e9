"""Uvicorn's HTTP, with limits of its own on whoever connects.

Uvicorn bounds neither the size of headers nor the time that they take. And ASGI can
close a connection only behind everything already sent, which a client that reads
nothing never takes: this lends the application a handle to cut the line; elsewhere it
does without.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from ..protocol.openai.refusal import Refusal
from .portions import Portions
from .settings import LINGER_BYTES, LINGER_S, ServeSettings

# What a header costs beside its name and value.
HEADER_EXTRA_BYTES = 4

DEFAULTS = ServeSettings()


class HeadersTooLarge(Exception):
    """More than the limit; raised through the parser, which it ends."""


class Flow(FlowControl):
    """Reads nothing while something read before waits to be parsed."""

    def __init__(self, transport: asyncio.Transport, portions: Portions) -> None:
        super().__init__(transport)
        self._portions = portions

    def resume_reading(self) -> None:
        """Read on, unless something waits; it says when it does not any more."""
        if not self._portions.waiting:
            super().resume_reading()
        self.read_paused = False


class HttpTransport(HttpToolsProtocol):
    """HTTP whose connection can be cut: ``extensions["legato.abort"]()``.

    The headers of a request are bounded in size and time; trailers behind a chunked
    body count as headers. A refused client is heard out for a while, so that it comes
    to read why. ``http_transport`` sets the limits.
    """

    max_header_bytes = DEFAULTS.max_header_bytes
    header_deadline_s = DEFAULTS.header_deadline_s

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers = False
        # Of the request: headers parsed, and what was read since the parser last had
        # something to say, which it keeps if it is a header.
        self._parsed_bytes = 0
        self._unparsed_bytes = 0
        self._parser_spoke = False
        self._too_large = False
        self._handed_over = False
        self._lingering = False
        self._discarded_bytes = 0
        self._running: RequestResponseCycle | None = None

    @property
    def _serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] # None until the first request

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._portions = Portions(self.loop, transport, self._parse, self._read_on)
        self.flow = Flow(transport, self._portions)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more, and tell the request that is being served."""
        self._disarm()
        self._portions.drop()
        if self._running is not None and self._running is not self.cycle:
            # Uvicorn tells the last one that came in, which waits behind it.
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what comes, or throw it away once the client was refused."""
        if self._lingering:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > LINGER_BYTES:
                self.transport.abort()
            return
        self._portions.take(data)

    def on_response_complete(self) -> None:
        """Serve the next request; parse more where none waits for its turn."""
        super().on_response_complete()
        if not self.pipeline:
            self._portions.go_on()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _read_on(self) -> None:
        if not self.flow.read_paused:
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> bool:
        """Parse a portion; no more of them while a request waits for its turn."""
        self._parser_spoke = False
        super().data_received(data)
        if self._handed_over or self._lingering or self.transport.is_closing():
            self._portions.drop()
            return False
        self._bound_headers(len(data))
        if not self.pipeline:
            return True
        self.flow.resume_reading()  # or nobody would hear that the client leaves
        return False

    def _bound_headers(self, num_bytes: int) -> None:
        self._unparsed_bytes = (
            0 if self._parser_spoke else self._unparsed_bytes + num_bytes
        )
        if self._parsed_bytes + self._unparsed_bytes > self.max_header_bytes:
            self._refuse(self._headers_too_large())
        elif not self._serving and self.timeout_keep_alive_task is None:
            # Uvicorn's timer ended with the first byte after an answer.
            self._arm()

    def on_message_begin(self) -> None:
        """Begin a request; add the handle to its scope."""
        super().on_message_begin()
        self._parser_spoke = self._in_headers = True
        self._parsed_bytes = 0
        scope: dict[str, Any] = self.scope  # pyright: ignore[reportAssignmentType] # a TypedDict is a dict
        scope["extensions"] = {"legato.abort": self.transport.abort}

    def on_url(self, url: bytes) -> None:
        """Count a piece of the URL."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or trailer."""
        self._count(len(name) + len(value) + HEADER_EXTRA_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to serve the request: its headers are not waited for any more."""
        self._parser_spoke = True
        self._in_headers = False
        self._disarm()
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Note that the body goes on."""
        self._parser_spoke = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._parser_spoke = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request; one that was answered before leaves the connection idle."""
        self._parser_spoke = True
        super().on_message_complete()
        if not (self._serving or self.transport.is_closing()):
            self._disarm()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over."""
        self._handed_over = True
        self._disarm()
        self._unset_keepalive_if_required()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, or had no need to be parsed further."""
        if self._too_large:
            self._refuse(self._headers_too_large())
        else:
            self._refuse(Refusal(400, "bad_request", msg))

    def _count(self, size: int) -> None:
        self._parser_spoke = True
        self._parsed_bytes += size
        if self._parsed_bytes > self.max_header_bytes:
            self._too_large = True
            raise HeadersTooLarge

    def _headers_too_large(self) -> Refusal:
        most = self.max_header_bytes
        return Refusal(431, "headers_too_large", f"headers have at most {most} bytes")

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.header_deadline_s, self._late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self._in_headers:
            self._refuse(
                Refusal(408, "request_timeout", "the headers did not come in time")
            )
        else:
            # It never began a request, or sends on the body of an answered one.
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close, but not before the client had time to read it.

        Closing at once what still has something to read would reset the connection, and
        the answer with it.
        """
        self._disarm()
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        if self._serving:
            if self.pipeline or self.cycle.response_started or not self.cycle.more_body:
                # Another request's answer is under way: this one is not to be put
                # in its place.
                self.transport.close()
                return
            # Its own body was at fault, which the application waits for.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.cycle = None  # pyright: ignore[reportAttributeAccessIssue] # as before the first request
        self._lingering = True
        self._discarded_bytes += self._portions.drop()
        self.flow.resume_reading()
        self.transport.write(closing_answer(refusal))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)


def http_transport(settings: ServeSettings) -> type[HttpTransport]:
    """Uvicorn makes its protocols itself, from a class: one with these limits."""

    class Limited(HttpTransport):
        max_header_bytes = settings.max_header_bytes
        header_deadline_s = settings.header_deadline_s

    return Limited


def closing_answer(refusal: Refusal) -> bytes:
    """The bytes of a whole answer after which the connection closes."""
    body = refusal.body()
    return (
        STATUS_LINE[refusal.status]
        + b"content-type: application/json\r\nconnection: close\r\n"
        + b"content-length: %d\r\n\r\n" % len(body)
        + body
    )
