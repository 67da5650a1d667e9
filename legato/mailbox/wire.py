"""One end of a local socket, as frames: bursts go out in one write."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import msgspec

from .frames import FrameReader, Kind, MalformedFrame, frame

OnFrame = Callable[[Kind, memoryview], None]
OnPause = Callable[[], None]
OnLost = Callable[[BaseException | None], None]


class Wire(asyncio.Protocol):
    """A connected stream socket in the running loop; it owns the descriptor.

    Args:
        max_body_bytes: Longest frame body it reads.
        on_frame: Called with each frame; one that it cannot read cuts the wire.
        on_pause: Called after the last of the frames that came at once.
        on_lost: Called once, when no frame can come any more, with the cause if
            the wire was not simply closed.
    """

    def __init__(
        self,
        max_body_bytes: int,
        on_frame: OnFrame,
        on_pause: OnPause,
        on_lost: OnLost,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self._reader = FrameReader(max_body_bytes)
        self._on_frame = on_frame
        self._on_pause = on_pause
        self._on_lost = on_lost
        self._out: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._fault: BaseException | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take the socket over; cancelled, it is closed.

        Raises:
            OSError: It is not a connected stream socket.
        """
        sock.setblocking(False)
        try:
            if sock.family == getattr(socket, "AF_UNIX", None):
                await self.loop.create_unix_connection(lambda: self, sock=sock)
            else:
                await self.loop.create_connection(lambda: self, sock=sock)
        except BaseException:
            self.cut()
            sock.close()
            raise

    def send(self, kind: Kind, body: bytes = b"") -> None:
        """Send a frame, together with all others of this turn of the loop."""
        if not self._out:
            self.loop.call_soon(self._flush)
        self._out.append(frame(kind, body))

    def close(self) -> None:
        """Send what is left, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start; called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand frames over; called by the loop."""
        if self._fault is not None:
            return
        try:
            for kind, body in self._reader.feed(data):
                self._on_frame(kind, body)
        except (ValueError, msgspec.MsgspecError) as error:
            self._fault = error
            self.cut()
        self._on_pause()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the end of it; called by the loop."""
        self._transport = None
        self._out.clear()
        self._on_lost(self._fault or exc)
        if not self.gone.done():
            self.gone.set_result(None)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()


def malformed(kind: Kind) -> MalformedFrame:
    """The fault of a frame that came the wrong way, or over the bound."""
    return MalformedFrame(f"a {kind.name} frame that nobody may send here now")
