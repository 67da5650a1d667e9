"""The events of one response, kept for whoever comes late or comes again.

A delta is kept as its text alone and made again when it is read, so that an event takes
some tens of bytes and not some hundreds. Bounded: where a response, or all together,
take more than they may, the oldest events go, and a reader that still wanted them is
told.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from ...protocol.openai.extensions import Note
from ...protocol.openai.refusal import Refusal
from ...protocol.openai.response_frames import DeltaShape

# What Python adds to each text that is kept.
ENTRY_BYTES = 64
# Events that a reader may be behind before the answer waits for it.
MAX_LAG = 64
# Events that a reader gets at once: what waits to be sent stands twice in memory.
AT_ONCE = 8


class Allowance:
    """Bytes that all logs together may take.

    Args:
        max_bytes: So many.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether more is taken than may be."""
        return self.used_bytes > self.max_bytes


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A log as it is stored."""

    prefix: str
    middle: str
    base: int
    entries: list[str]


class EventLog:
    """Events in order; the last one ends it.

    Args:
        shape: Of the response's deltas.
        max_bytes: Most that it may take.
        allowance: Shared by all logs.
    """

    def __init__(self, shape: DeltaShape, max_bytes: int, allowance: Allowance) -> None:
        self._shape = shape
        self._max_bytes = max_bytes
        self._allowance = allowance
        self._base = 0
        self._entries: list[str] = []
        self._bytes = 0
        self._readers: set[Reader] = set()
        self._room = asyncio.Event()
        self.is_closed = False

    # -- the answer's side -----------------------------------------------------

    async def put(self, frames: Sequence[str]) -> None:
        """Keep events; waits while a reader that must keep up does not."""
        rest = self.send_now(frames)
        while rest:
            self._room.clear()
            await self._room.wait()
            rest = self.send_now(rest)

    def send_now(self, frames: Sequence[str]) -> tuple[str, ...]:
        """Keep events at once.

        Returns:
            All of them, if a reader that must keep up does not.
        """
        if any(reader.lags for reader in self._readers):
            return tuple(frames)
        for frame in frames:
            if isinstance(frame, Note):
                for reader in self._readers:
                    reader.notes.append(frame)
            else:
                self._keep(frame)
        self._wake()
        return ()

    def close(self) -> None:
        """Nothing follows."""
        self.is_closed = True
        self._wake()

    def forget(self) -> None:
        """Let go of everything; who still reads is told."""
        self._base = self.end
        self._entries.clear()
        self._allowance.used_bytes -= self._bytes
        self._bytes = 0
        self.close()

    @property
    def end(self) -> int:
        """The number the next event gets."""
        return self._base + len(self._entries)

    def _keep(self, frame: str) -> None:
        text = self._shape.text_in(frame, self.end)
        entry = frame if text is None else text
        self._entries.append(entry)
        self._count(len(entry) + ENTRY_BYTES)
        self._trim()

    @property
    def is_full(self) -> bool:
        """Whether the oldest events are about to go."""
        return self._bytes > self._max_bytes or self._allowance.is_over

    def _trim(self) -> None:
        """Let the oldest events go where there is too much.

        Those that the answer's follower has not read stay: it waits for that one.
        """
        unread = min((r.number for r in self._readers if r.holds), default=self.end)
        drop = 0
        while self.is_full and self._base + drop < unread:
            self._count(-len(self._entries[drop]) - ENTRY_BYTES)
            drop += 1
        del self._entries[:drop]
        self._base += drop

    def _count(self, size: int) -> None:
        self._bytes += size
        self._allowance.used_bytes += size

    def _wake(self) -> None:
        for reader in self._readers:
            reader.news.set()

    # -- the readers' side -----------------------------------------------------

    def read(self, after: int, *, holds: bool = False) -> "Reader":
        """Begin to read.

        Args:
            after: The number of the last event that is known already; -1: none.
            holds: The answer waits for this reader.

        Raises:
            Refusal: What comes next is kept no more, or was never sent.
        """
        self._check(after + 1)
        reader = Reader(self, after + 1, holds=holds)
        self._readers.add(reader)
        return reader

    def leave(self, reader: "Reader") -> None:
        """Let a reader go; what waited for it goes on."""
        self._readers.discard(reader)
        reader.news.set()
        self._room.set()

    def take(self, number: int) -> list[str]:
        """Events from a number on, not too many at once.

        Raises:
            Refusal: They are kept no more.
        """
        self._check(number)
        begin = number - self._base
        entries = self._entries[begin : begin + AT_ONCE]
        return [self._frame(entry, number + at) for at, entry in enumerate(entries)]

    def note_read(self) -> None:
        """A reader has read on: who waits for room may look again."""
        self._room.set()

    def _frame(self, entry: str, number: int) -> str:
        # Events are objects, texts are strings: their first characters tell.
        return entry if entry[0] == "{" else self._shape.frame(entry, number)

    def _check(self, number: int) -> None:
        if number < self._base:
            raise Refusal(
                410,
                "replay_unavailable",
                f"events before {self._base} are not kept any more",
                param="starting_after",
            )
        if number > self.end:
            raise Refusal(
                400,
                "invalid_value",
                f"starting_after: the last event is {self.end - 1}",
                param="starting_after",
            )

    # -- in a store ------------------------------------------------------------

    def snapshot(self) -> bytes:
        """All of it, to be stored."""
        shape = self._shape
        kept = Snapshot(shape.prefix, shape.middle, self._base, self._entries)
        return msgspec.msgpack.encode(kept)

    @classmethod
    def restored(cls, snapshot: bytes) -> "EventLog":
        """A log that was stored; it has ended."""
        kept = msgspec.msgpack.decode(snapshot, type=Snapshot)
        log = cls(DeltaShape(kept.prefix, kept.middle), 0, Allowance(0))
        log._base, log._entries = kept.base, kept.entries
        log.is_closed = True
        return log


class Reader:
    """One who reads a log, from some event on; close it when done.

    Args:
        log: What it reads.
        number: Of the next event.
        holds: The answer waits for this reader.
    """

    def __init__(self, log: EventLog, number: int, *, holds: bool) -> None:
        self._log = log
        self.number = number
        self.holds = holds
        self._left = False
        self.news = asyncio.Event()
        self.notes: list[Note] = []

    @property
    def lags(self) -> bool:
        """Whether the answer must wait for it."""
        most = 1 if self._log.is_full else MAX_LAG
        return self.holds and self._log.end - self.number >= most

    async def next(self) -> list[str]:
        """Wait for events; none: there are no more, or somebody else took over.

        Raises:
            Refusal: It read too slowly, and what comes next is kept no more.
        """
        while not self._left:
            self.news.clear()
            frames = self._log.take(self.number)
            self.number += len(frames)
            if frames:
                self._log.note_read()
            if self.notes and self.number == self._log.end:
                frames += self.notes
                self.notes = []
            if frames or self._log.is_closed:
                return frames
            await self.news.wait()
        return []

    def close(self) -> None:
        """Read no more."""
        self._left = True
        self._log.leave(self)
