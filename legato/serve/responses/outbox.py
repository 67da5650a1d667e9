"""What waits to be sent on one socket, and the one task that sends it.

While the client keeps up nothing waits: frames go out as they are put, and the task
sleeps. Bounded: when a client reads slowly the outbox fills, the lanes wait, their
streams' deltas merge, and the engine pauses the sequences. A client that reads nothing
at all for the deadline is given up.
"""

import asyncio
from collections.abc import Callable, Sequence

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
        write: Makes the message of a frame; None: a frame is its message.
    """

    def __init__(
        self,
        socket: Socket,
        entries: int,
        watch: StallWatch,
        write: Callable[[str], str | bytes] | None = None,
    ) -> None:
        self._socket = socket
        self._write = write
        self._is_finishing = False
        self._watch = watch
        self._waiting = Mailbox[Frames](
            "outbox", entries, urgent_capacity=URGENT_ENTRIES
        )
        self._address = self._waiting.address()
        # Entries that wait, or whose sender waits for room for them.
        self._num_waiting = 0
        self._is_sending = False
        self._is_over = False
        self._empty = asyncio.Event()

    async def put(self, frames: list[str]) -> None:
        """Add frames that belong together, waiting for room."""
        rest = self.send_now(frames)
        if not rest:
            return
        self._num_waiting += 1
        try:
            await self._address.put(rest)
        except BaseException:
            self._num_waiting -= 1
            raise

    def send_now(self, frames: Sequence[str]) -> Frames:
        """Send as many frames as go out at once, without a task.

        Returns:
            The rest, if something waits already or the client reads too slowly.
        """
        if self._is_sending or self._num_waiting:
            return tuple(frames)
        for index, frame in enumerate(frames):
            message = frame if self._write is None else self._write(frame)
            if not self._socket.send_now(message):
                return tuple(frames[index:])
        return ()

    def put_error(self, frame: str) -> bool:
        """Add an error event past the queue; False if too many of them wait."""
        if not self.send_now((frame,)):
            return True
        try:
            self._address.put_urgent((frame,))
        except MailboxFull:
            return False
        self._num_waiting += 1
        return True

    async def emptied(self) -> None:
        """Wait until all that was put is sent, or the client has left."""
        while not self._is_over and (self._num_waiting or self._is_sending):
            self._empty.clear()
            await self._empty.wait()

    def finish(self) -> None:
        """Return from ``run`` once all that waits is sent."""
        self._is_finishing = True
        self._num_waiting += 1
        try:
            self._address.put_urgent(())
        except MailboxFull:
            self._num_waiting -= 1  # what waits will wake it

    async def run(self) -> None:
        """Send until the client leaves; cancelled, what waits is dropped."""
        try:
            while True:
                batch = await self._waiting.drain()
                self._num_waiting -= len(batch)
                self._is_sending = True
                self._watch.begin()
                for frames in batch:
                    for frame in frames:
                        message = frame if self._write is None else self._write(frame)
                        await self._socket.send(message)
                self._watch.end()
                self._is_sending = False
                self._empty.set()
                if self._is_finishing and not self._num_waiting:
                    return
        except SocketGone:
            return
        finally:
            self._is_over = True
            self._empty.set()
            self._watch.close()
