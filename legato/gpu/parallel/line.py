"""Messages between a leading rank and another: one private pair of sockets.

Nobody waits for room: a rank takes its plans as they come, and answers are rare.
"""

import socket
import struct
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
HEAD = struct.Struct("<I")


class Line:
    """One end of the pair.

    Args:
        end: The socket, whose owner this becomes.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            OSError: The other end is gone.
        """
        self.send_bytes(msgspec.msgpack.encode(message))

    def send_bytes(self, body: bytes) -> None:
        """Send a message that is encoded already.

        Raises:
            OSError: The other end is gone.
        """
        self._end.sendall(HEAD.pack(len(body)) + body)

    def receive(self, decoder: "msgspec.msgpack.Decoder[T]") -> T:
        """Wait for a message.

        Raises:
            MsgspecError: It is of another kind.
            EOFError: The other end is gone, or this one was hung up.
            OSError: The same.
        """
        (size,) = HEAD.unpack(self._exactly(HEAD.size))
        return decoder.decode(self._exactly(size))

    def hang_up(self) -> None:
        """Let both ends know that it is over. From any thread; may be called again."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end was quicker

    def close(self) -> None:
        """Free the socket; nobody may be receiving any more."""
        self._end.close()

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._end.recv(min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
