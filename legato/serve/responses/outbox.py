"""What waits to be sent on one socket, and the one task that sends it.

Bounded: when a client reads slowly the outbox fills, the lanes wait, their streams'
deltas merge, and the engine pauses the sequences. A client that reads nothing at all
for the deadline is given up.
"""

import asyncio

from ...mailbox import Mailbox, MailboxClosed, MailboxFull
from ..socket import Socket, SocketGone

URGENT_ENTRIES = 64

Frames = tuple[str, ...]


class Outbox:
    """Frames for one socket.

    Args:
        socket: Where they go.
        entries: Most entries that wait.
        deadline_s: Longest time one batch may take.
    """

    def __init__(self, socket: Socket, entries: int, deadline_s: float) -> None:
        self._socket = socket
        self._deadline_s = deadline_s
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

    async def run(self) -> bool:
        """Send until the client leaves.

        Returns:
            False if it is still there but read nothing for the deadline.
        """
        loop = asyncio.get_running_loop()
        try:
            while True:
                batch = await self._waiting.drain()
                async with asyncio.timeout_at(loop.time() + self._deadline_s):
                    for frames in batch:
                        for frame in frames:
                            await self._socket.send(frame)
        except (SocketGone, MailboxClosed):
            return True
        except TimeoutError:
            return False
