"""A response's events over HTTP: server-sent, each with its name.

Nothing is sent before the first token, so that every refusal has its own status.
"""

from collections.abc import Sequence

import msgspec

from ...protocol.openai.extensions import Note
from ..exchange import Exchange
from .job import Job

SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Kind(msgspec.Struct):
    """What an event is called."""

    type: str


class EventSink:
    """Sends events; a reader that is too slow holds up who puts them.

    Args:
        exchange: The request.
        job: Whose events, if it is made for this request alone.
    """

    def __init__(self, exchange: Exchange, job: Job | None = None) -> None:
        self._exchange = exchange
        self._job = job
        self._held: bytes | None = b""

    async def put(self, frames: Sequence[str]) -> None:
        """Send events; the opening ones are held until there is more to say.

        Raises:
            Refusal: The response has failed before anything was sent.
            ClientGone: The client left.
        """
        refusal = None if self._job is None else self._job.refusal
        if refusal is not None and not self._exchange.started:
            raise refusal
        data = b"".join([event(f) for f in frames if not isinstance(f, Note)])
        if self._held is not None:
            if not self._held and not self._ends(frames):
                self._held = data
                return
            data, self._held = self._held + data, None
            await self.start()
        if data:
            await self._exchange.write(data)

    def send_now(self, frames: Sequence[str]) -> tuple[str, ...]:
        """Nothing goes out at once."""
        return tuple(frames)

    async def start(self) -> None:
        """Send the status and headers."""
        self._held = None
        await self._exchange.start(200, SSE_HEADERS)

    def _ends(self, frames: Sequence[str]) -> bool:
        return self._job is None or self._job.stored is not None


class Silence:
    """Takes events and sends none: the whole response is sent at its end."""

    async def put(self, frames: Sequence[str]) -> None:
        """Take events."""

    def send_now(self, frames: Sequence[str]) -> tuple[str, ...]:
        """Take events."""
        return ()


def event(frame: str) -> bytes:
    """One server-sent event."""
    kind = msgspec.json.decode(frame, type=Kind).type
    return f"event: {kind}\ndata: {frame}\n\n".encode()
