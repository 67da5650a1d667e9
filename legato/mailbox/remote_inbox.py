"""The consuming end of a mailbox between two processes."""

import socket
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from ..protocol.errors import InvalidSetting
from .consumer import LoopConsumer
from .frames import Credit, Hello, Kind
from .lanes import URGENT_CAPACITY, State
from .loop_lanes import LoopLanes
from .wire import Wire, malformed

T = TypeVar("T")

MAX_MESSAGE_BYTES = 16 * 2**20


class RemoteInbox(LoopConsumer[T]):
    """An ``Inbox`` filled through a socket, in the loop that opened it.

    The bound holds end to end: what a sender has sent and this consumer has not taken
    is never more than the capacity, wherever it is.
    """

    __slots__ = ("_credited", "_decoder", "_received", "_returning", "_wire")

    def __init__(self, lanes: LoopLanes[T], message: Any, max_bytes: int) -> None:
        super().__init__(lanes)
        lanes.check()
        self._decoder = msgspec.msgpack.Decoder(message)
        self._received = [0, 0]  # ordinary, urgent
        self._credited = [0, 0]
        self._returning = False
        self._wire = Wire(max_bytes, self._on_frame, self._on_pause, self._on_lost)

    @classmethod
    async def open(
        cls,
        sock: socket.socket,
        name: str,
        capacity: int,
        message: Any,
        *,
        urgent_capacity: int = URGENT_CAPACITY,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> "RemoteInbox[T]":
        """Take over a connected stream socket and let the sender begin.

        Args:
            sock: From here on this inbox's; closed with it, or if opening fails.
            name: For errors and metrics.
            capacity: Most messages that wait, urgent ones aside.
            message: The type to decode: a Struct, or a union of tagged ones.
            urgent_capacity: Most urgent messages that wait.
            max_message_bytes: Longest encoded message; the sender is told.

        Raises:
            InvalidSetting: A bound below 1, or a limit no frame can have.
            OSError: Not a connected stream socket.
        """
        try:
            if not 1 <= max_message_bytes < 2**32:
                raise InvalidSetting(
                    f"mailbox {name!r}: max_message_bytes must be in [1, 2**32), got "
                    f"{max_message_bytes}"
                )
            lanes = LoopLanes[T](name, capacity, urgent_capacity=urgent_capacity)
            inbox = cls(lanes, message, max_message_bytes)
        except BaseException:
            sock.close()
            raise
        await inbox._wire.open(sock)
        hello = Hello(capacity, urgent_capacity, max_message_bytes)
        inbox._wire.send(Kind.HELLO, msgspec.msgpack.encode(hello))
        return inbox

    def close(self) -> None:
        """Refuse all further puts; what has arrived can still be taken.

        Raises:
            MailboxMisused: Another loop's mailbox.
        """
        super().close()
        self._wire.close()

    async def aclose(self) -> None:
        """Close, and wait until the socket is closed; what waits can be taken."""
        self.close()
        await self._wire.gone

    def _took(self) -> None:
        """Return credit, once in this turn of the loop."""
        if not self._returning and self._lanes.state is State.OPEN:
            self._returning = True
            self._wire.loop.call_soon(self._return_credit)

    def _return_credit(self) -> None:
        self._returning = False
        lanes = self._lanes
        if lanes.state is not State.OPEN:
            return
        taken = [
            self._received[0] - len(lanes.items),
            self._received[1] - len(lanes.urgent),
        ]
        owed = Credit(taken[0] - self._credited[0], taken[1] - self._credited[1])
        if owed.ordinary or owed.urgent:
            self._credited = taken
            self._wire.send(Kind.CREDIT, msgspec.msgpack.encode(owed))

    def _on_frame(self, kind: Kind, body: memoryview) -> None:
        lanes = self._lanes
        if lanes.state is State.CLOSED:
            return
        if kind is Kind.FINISH:
            lanes.finish()
            return
        urgent = kind is Kind.URGENT
        lane = lanes.urgent if urgent else lanes.items
        bound = lanes.urgent_capacity if urgent else lanes.capacity
        if kind < Kind.DATA or len(lane) >= bound or lanes.state is not State.OPEN:
            raise malformed(kind)
        lane.append(self._decoder.decode(body))
        lanes.since_s -= perf_counter()
        self._received[urgent] += 1

    def _on_pause(self) -> None:
        self._lanes.wake()
        if self._lanes.state is State.FINISHED:
            self._wire.close()

    def _on_lost(self, cause: BaseException | None) -> None:
        lanes = self._lanes
        if lanes.state is State.OPEN:
            lanes.state = State.BROKEN
            lanes.closing_cause = cause
        lanes.wake()
