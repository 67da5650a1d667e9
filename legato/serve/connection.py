"""One WebSocket at work: its reader, its writer, its tasks, and how it ends.

Knows nothing of what the messages say. The reader waits for nobody but the client:
answers run in tasks of their own, and one task writes. The one exception is a reply for
which the outbox has no room: a client that asks on without reading is itself made to
wait, and given up after the send deadline.
"""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from .responses.outbox import Outbox
from .responses.stall import StallWatch
from .settings import ServeSettings
from .socket import Socket, SocketGone

TOO_BIG = 1009
POLICY = 1008

Take = Callable[[str | bytes, TaskGroup], Awaitable[None]]


class Misused(Exception):
    """The client broke the protocol in a way that ends the connection; says why."""


class Connection:
    """A connection, served to its end by ``run``.

    Args:
        socket: The client's, accepted.
        settings: Limits.
    """

    def __init__(self, socket: Socket, settings: ServeSettings) -> None:
        self._socket = socket
        self._settings = settings
        watch = StallWatch(settings.send_deadline_s, self._give_up)
        self.outbox = Outbox(socket, settings.outbox_entries, watch)
        self._end = (1000, "")
        self._scope = anyio.CancelScope()

    async def run(self, take: Take) -> None:
        """Serve until either side ends it; cancelled then is whatever still runs.

        Args:
            take: Acts on a message; answers run in the task group it is given. It may
                raise ``Misused``.
        """
        with self._scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write)
                await self._read(take, group)
                self._scope.cancel()
        await self._socket.close(*self._end)

    async def _write(self) -> None:
        await self.outbox.run()
        self._scope.cancel()

    def _give_up(self) -> None:
        wait_s = self._settings.send_deadline_s
        self._end = (POLICY, f"nothing was read for {wait_s:g} s")
        self._scope.cancel()

    async def _read(self, take: Take, group: TaskGroup) -> None:
        limit = self._settings.max_frame_bytes
        try:
            while True:
                frame = await self._socket.receive()
                if is_longer(frame, limit):
                    self._end = (TOO_BIG, f"a message has at most {limit} bytes")
                    return
                await take(frame, group)
        except Misused as error:
            self._end = (POLICY, str(error))
        except SocketGone:
            return


def is_longer(frame: str | bytes, limit: int) -> bool:
    """Say whether a message has more bytes than it may."""
    # Characters are at least bytes, so most frames need no second look.
    return len(frame) > limit or (
        isinstance(frame, str)
        and len(frame) > limit // 4
        and len(frame.encode()) > limit
    )
