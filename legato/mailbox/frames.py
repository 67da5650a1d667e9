"""The frames that cross between two processes; bytes in, frames out, no I/O.

    length of the body (4 bytes, big endian) | kind (1 byte) | body

To the consumer go DATA and URGENT, whose body is one MessagePack message, and FINISH.
To the sender go HELLO, once, and CREDIT: how many messages more may be under way in
each lane. A sender without credit sends nothing, so what waits in the kernel's buffers
counts against the consumer's capacity too.
"""

import enum
import struct
from collections.abc import Iterator

import msgspec

HEADER = struct.Struct(">IB")


class Kind(enum.IntEnum):
    """What a frame is."""

    HELLO = 0
    CREDIT = 1
    DATA = 2
    URGENT = 3
    FINISH = 4


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """What the consumer's end can hold.

    Args:
        capacity: First credit of the ordinary lane.
        urgent_capacity: First credit of the urgent lane.
        max_message_bytes: Longest body the consumer reads.
    """

    capacity: int
    urgent_capacity: int
    max_message_bytes: int


class Credit(msgspec.Struct, frozen=True, array_like=True):
    """Messages taken since the last credit, in each lane."""

    ordinary: int
    urgent: int


class MalformedFrame(ValueError):
    """The peer does not speak this protocol, or broke its bounds."""


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """Write one frame."""
    return HEADER.pack(len(body), kind) + body


class FrameReader:
    """Cuts a stream of bytes into frames.

    Args:
        max_body_bytes: A longer body is refused before it is waited for.
    """

    __slots__ = ("_needed", "_rest", "max_body_bytes")

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self._rest = bytearray()
        self._needed = HEADER.size  # bytes of _rest before it is worth a look

    def feed(self, chunk: bytes) -> Iterator[tuple[Kind, memoryview]]:
        """Yield the frames that a chunk completes; read each before the next.

        Raises:
            MalformedFrame: An unknown kind, or a body over the limit.
        """
        whole = chunk
        if self._rest:
            self._rest += chunk
            if len(self._rest) < self._needed:
                return
            whole = bytes(self._rest)
        view = memoryview(whole)
        start, end = 0, len(whole)
        self._needed = HEADER.size
        while end - start >= HEADER.size:
            size, number = HEADER.unpack_from(whole, start)
            if number > Kind.FINISH or size > self.max_body_bytes:
                raise MalformedFrame(f"a frame of kind {number} and {size} bytes")
            body = start + HEADER.size
            if end - body < size:
                self._needed = HEADER.size + size
                break
            start = body + size
            yield KINDS[number], view[body:start]
        self._rest = bytearray(view[start:])


KINDS = tuple(Kind)
