"""What the server keeps of responses, for those who go on from them or ask for them.

A store is bounded in entries and bytes, forgets what is too old, and gives up first
what was not asked for longest. A key's responses are found by that key alone.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec

from ...protocol.requests import ChatMessage


class Ended(msgspec.Struct):
    """Of a response's object, how it ended."""

    status: str


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """One response.

    Args:
        name: Its id.
        tenant: Whose it is.
        response: The object, as JSON.
        items: Its input items, as a JSON list.
        turns: The conversation up to and with it, without instructions.
        events: Its events, as an ``EventLog`` keeps them; None: not kept.
    """

    name: str
    tenant: str
    response: bytes
    items: bytes
    turns: tuple[ChatMessage, ...]
    events: bytes | None = None

    @property
    def status(self) -> str:
        """How it ended."""
        return msgspec.json.decode(self.response, type=Ended).status

    @property
    def size_bytes(self) -> int:
        """What it takes, at least."""
        texts = sum(turn.num_chars for turn in self.turns)
        return len(self.response) + len(self.items) + len(self.events or b"") + texts


class StoreLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a store.

    Args:
        entries: Most responses.
        max_bytes: Most bytes of all.
        ttl_s: Longest that one is kept.
    """

    entries: int
    max_bytes: int
    ttl_s: float


class ResponseStore(Protocol):
    """Where responses are kept."""

    def put(self, stored: Stored) -> None:
        """Keep a response; from now on it is found, even if it is written later."""
        ...

    async def get(self, name: str, tenant: str) -> Stored | None:
        """Return a response of this tenant, or None."""
        ...

    async def delete(self, name: str, tenant: str) -> bool:
        """Forget a response; say whether it was there."""
        ...

    async def close(self) -> None:
        """Write what is not written yet, and let go of everything."""
        ...


class MemoryStore:
    """A store that ends with the process.

    Args:
        limits: Its bounds.
        clock: Seconds.
    """

    def __init__(
        self, limits: StoreLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Stored]] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, stored: Stored) -> None:
        """Keep a response; the ones asked for longest ago make room."""
        self._drop(stored.name)
        size = stored.size_bytes
        if size > self._limits.max_bytes:
            return
        self._kept[stored.name] = (self._clock() + self._limits.ttl_s, stored)
        self.num_bytes += size
        limits = self._limits
        while len(self._kept) > limits.entries or self.num_bytes > limits.max_bytes:
            self._drop(next(iter(self._kept)))

    async def get(self, name: str, tenant: str) -> Stored | None:
        """Return a response of this tenant, or None."""
        expires_s, stored = self._kept.get(name, (0.0, None))
        if stored is None or stored.tenant != tenant:
            return None
        if self._clock() >= expires_s:
            self._drop(name)
            return None
        self._kept.move_to_end(name)
        return stored

    async def delete(self, name: str, tenant: str) -> bool:
        """Forget a response; say whether it was there."""
        found = await self.get(name, tenant) is not None
        if found:
            self._drop(name)
        return found

    async def close(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.num_bytes = 0

    def _drop(self, name: str) -> None:
        _, stored = self._kept.pop(name, (0.0, None))
        if stored is not None:
            self.num_bytes -= stored.size_bytes
