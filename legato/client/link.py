"""One connection after another to the same server.

A connection that drops is replaced while anybody wants it; one that nobody wants is
left until somebody does. Knows frames and no responses.
"""

import random
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidStatus,
    WebSocketException,
)

from ..protocol.errors import ConnectionLost, InvalidRequest, LegatoError, NotAdmitted

Frame = dict[str, Any]
PATH = "/v1/responses"
FIRST_DELAY_S = 0.05
LONGEST_DELAY_S = 2.0
MAX_FRAME_BYTES = 16 * 2**20
CLOSE_S = 1.0


class Peer(Protocol):
    """Who uses the link."""

    @property
    def wanted(self) -> bool:
        """Somebody waits for the server."""
        ...

    def greet(self) -> list[Frame]:
        """What to send on a new connection."""
        ...

    def take(self, event: Frame) -> None:
        """Take what came."""
        ...

    def dropped(self) -> None:
        """The connection dropped; another may come."""
        ...

    def lost(self, error: LegatoError) -> None:
        """No other comes."""
        ...


class Link:
    """A connection that is made again.

    Args:
        url: ``ws://`` or ``wss://``; a path is added where there is none.
        api_key: Sent with every handshake, or "".
        peer: Who uses it.
        patience_s: Longest time without a connection while one is wanted.
        dial_s: Longest time for one attempt.
    """

    def __init__(
        self, url: str, api_key: str, peer: Peer, *, patience_s: float, dial_s: float
    ) -> None:
        self._url = socket_url(url)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._peer = peer
        self._patience_s = patience_s
        self._dial_s = dial_s
        self._socket: ClientConnection | None = None
        self._outbox: deque[Frame] = deque()
        self._posted = anyio.Event()
        self._called = anyio.Event()
        self._heard = False
        # Of attempts since the server was last heard.
        self._waits: Iterator[float] | None = None
        self._give_up_s = 0.0

    async def open(self) -> None:
        """Connect for the first time.

        Raises:
            NotAdmitted: The key or the origin is not let in.
            InvalidRequest: There is no such server at this URL.
            ConnectionLost: It cannot be reached.
        """
        try:
            self._socket = await self._dial()
        except (OSError, WebSocketException) as error:
            raise ConnectionLost(f"{self._url}: {error}") from error

    async def run(self) -> None:
        """Talk, and connect again, until cancelled."""
        while True:
            if self._socket is not None:
                began_s = anyio.current_time()
                await self._talk(self._socket)
                lasted_s = anyio.current_time() - began_s
                if self._heard or lasted_s > self._patience_s:
                    self._waits = None
                self._socket = None
                self._peer.dropped()
            if not self._peer.wanted:
                self._waits = None
                self._called = anyio.Event()
                await self._called.wait()
            await self._redial()

    @property
    def connected(self) -> bool:
        """There is a connection, as far as anybody knows."""
        return self._socket is not None

    def send(self, frame: Frame) -> None:
        """Send a frame if there is a connection; wake the link if there is none."""
        if self._socket is not None:
            self._outbox.append(frame)
            self._posted.set()
        self._called.set()

    def hang_up(self) -> None:
        """Give up this connection for another."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def _dial(self) -> ClientConnection:
        try:
            return await connect(
                self._url,
                additional_headers=self._headers,
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=self._dial_s,
                close_timeout=CLOSE_S,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status == 429 or status >= 500:
                raise
            text = f"{self._url}: {said(error)}"
            if status in (401, 403):
                raise NotAdmitted(text) from error
            raise InvalidRequest(text) from error

    async def _redial(self) -> None:
        problem: Exception = ConnectionLost("connections end before anything is said")
        fresh = self._waits is None
        waits = self._waits = self._waits or delays()
        if fresh:
            self._give_up_s = anyio.current_time() + self._patience_s
        with anyio.CancelScope(deadline=self._give_up_s):
            if not fresh:
                # It let us in, and then said nothing: do not knock without pause.
                await anyio.sleep(next(waits))
            while True:
                try:
                    self._socket = await self._dial()
                    return
                except LegatoError as error:
                    self._peer.lost(error)
                    return
                except (OSError, WebSocketException) as error:
                    problem = error
                await anyio.sleep(next(waits))
        lost = ConnectionLost(
            f"{self._url} could not be reached for {self._patience_s:g} s: {problem}"
        )
        lost.__cause__ = problem
        self._waits = None
        self._peer.lost(lost)

    async def _talk(self, socket: ClientConnection) -> None:
        self._heard = False
        self._outbox = deque(self._peer.greet())
        self._posted.set()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write, socket)
                await self._read(socket)
                group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(2 * CLOSE_S, shield=True):
                await socket.close()

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for message in socket:
                self._heard = True
                self._peer.take(msgspec.json.decode(message, type=Frame))
        except ConnectionClosed:
            pass

    async def _write(self, socket: ClientConnection) -> None:
        try:
            while True:
                await self._posted.wait()
                self._posted = anyio.Event()
                while self._outbox:
                    frame = msgspec.json.encode(self._outbox.popleft())
                    await socket.send(frame.decode())
        except ConnectionClosed:
            pass


def delays() -> Iterator[float]:
    """Growing waits, drawn at random so that clients do not come back all at once."""
    longest_s = FIRST_DELAY_S
    while True:
        yield random.uniform(longest_s / 2, longest_s)
        longest_s = min(2 * longest_s, LONGEST_DELAY_S)


def socket_url(url: str) -> str:
    """The socket's URL, from a server's.

    Raises:
        InvalidRequest: It is none.
    """
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.netloc:
        raise InvalidRequest(f"must look like ws://127.0.0.1:8000, got {url!r}")
    path = parts.path if parts.path not in ("", "/") else PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


def said(error: InvalidStatus) -> str:
    """The server's own words in a refused handshake, if there are any."""
    try:
        body = msgspec.json.decode(error.response.body or b"", type=Frame)
        return body["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return str(error)
