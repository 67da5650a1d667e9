"""What waits to be sent on one socket, and the one task that sends it.

Bounded: when a client reads slowly the outbox fills, the lanes wait, their streams'
deltas merge, and the engine pauses the sequences. A client that reads nothing at all
for the deadline is given up.
"""

from ...mailbox import Mailbox, MailboxFull
from ..socket import Socket, SocketGone
from .stall import StallWatch

URGENT_ENTRIES = 64

Frames = tuple[str, ...]


class Outbox:
    """Frames for one socket.

    Args:
        socket: Where they go.
        entries: Most entries that wait.
        watch: Told when a batch begins and ends; it knows the deadline.
    """

    def __init__(self, socket: Socket, entries: int, watch: StallWatch) -> None:
        self._socket = socket
        self._watch = watch
        self._waiting = Mailbox[Frames](
            "outbox", entries, urgent_capacity=URGENT_ENTRIES
        )
        self._address = self._waiting.address()

    async def put(self, frames: list[str]) -> None:
        """Add frames that belong together, waiting for room."""
        if frames:
            await self._address.put(tuple(frames))

    def put_error(self, frame: str) -> bool:
        """Add an error event past the queue; False if too many of them wait."""
        try:
            self._address.put_urgent((frame,))
        except MailboxFull:
            return False
        return True

    async def run(self) -> None:
        """Send until the client leaves; cancelled, what waits is dropped."""
        try:
            while True:
                batch = await self._waiting.drain()
                self._watch.begin()
                for frames in batch:
                    for frame in frames:
                        await self._socket.send(frame)
                self._watch.end()
        except SocketGone:
            return
        finally:
            self._watch.close()
