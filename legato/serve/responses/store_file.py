"""A store in a file, which survives the process: SQLite, in a thread of its own.

What is put is found at once and written a moment later; closing waits for that.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ...protocol.errors import InvalidSetting
from .store import Stored, StoreLimits

log = logging.getLogger("legato.serve")

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
  name TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  used_s REAL NOT NULL,
  expires_s REAL NOT NULL,
  size INTEGER NOT NULL,
  data BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON responses (used_s);
"""

decode = msgspec.msgpack.Decoder(Stored).decode
encode = msgspec.msgpack.Encoder().encode


class FileStore:
    """A store in a file.

    Args:
        path: Made if it is not there.
        limits: Its bounds.
        clock: Unix time.

    Raises:
        InvalidSetting: The file cannot be used; says why.
    """

    def __init__(
        self, path: str, limits: StoreLimits, clock: Callable[[], float] = time.time
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._waiting: dict[str, Stored] = {}
        try:
            self._file = sqlite3.connect(
                path, check_same_thread=False, isolation_level=None
            )
            self._prepare(path)
        except sqlite3.Error as error:
            raise InvalidSetting(f"state_store {path!r}: {error}") from error
        self._thread = ThreadPoolExecutor(1, "legato-store")

    def _prepare(self, path: str) -> None:
        (version,) = self._file.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            self._file.close()
            raise InvalidSetting(
                f"state_store {path!r} has version {version}, not {VERSION}; "
                "give another path"
            )
        # A deploy may have the old and the new process open for a moment.
        self._file.execute("PRAGMA busy_timeout = 5000")
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.executescript(SCHEMA)
        self._file.execute(f"PRAGMA user_version = {VERSION}")

    def put(self, stored: Stored) -> None:
        """Keep a response; it is found at once and written soon."""
        if stored.size_bytes > self._limits.max_bytes:
            return
        self._waiting[stored.name] = stored
        self._thread.submit(self._write, stored)

    async def get(self, name: str, tenant: str) -> Stored | None:
        """Return a response of this tenant, or None."""
        stored = self._waiting.get(name)
        if stored is None:
            loop = asyncio.get_running_loop()
            stored = await loop.run_in_executor(self._thread, self._read, name)
        return stored if stored is not None and stored.tenant == tenant else None

    async def delete(self, name: str, tenant: str) -> bool:
        """Forget a response; say whether it was there."""
        self._waiting.pop(name, None)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._delete, name, tenant)

    async def close(self) -> None:
        """Wait until all is written, and close the file."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.shutdown)
        self._file.close()

    # In the thread, one after another.

    def _write(self, stored: Stored) -> None:
        now_s = self._clock()
        row = (
            stored.name,
            stored.tenant,
            now_s,
            now_s + self._limits.ttl_s,
            stored.size_bytes,
            encode(stored),
        )
        try:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute(
                "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)", row
            )
            self._make_room(now_s)
            self._file.execute("COMMIT")
        except sqlite3.Error:
            log.exception("a response cannot be written to the state store")
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
        finally:
            if self._waiting.get(stored.name) is stored:
                del self._waiting[stored.name]

    def _make_room(self, now_s: float) -> None:
        self._file.execute("DELETE FROM responses WHERE expires_s <= ?", (now_s,))
        limits = self._limits
        count, size = self._file.execute(
            "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM responses"
        ).fetchone()
        while count > limits.entries or size > limits.max_bytes:
            name, freed = self._file.execute(
                "SELECT name, size FROM responses ORDER BY used_s LIMIT 1"
            ).fetchone()
            self._file.execute("DELETE FROM responses WHERE name = ?", (name,))
            count, size = count - 1, size - freed

    def _read(self, name: str) -> Stored | None:
        now_s = self._clock()
        try:
            row = self._file.execute(
                "UPDATE responses SET used_s = ? WHERE name = ? AND expires_s > ? "
                "RETURNING data",
                (now_s, name, now_s),
            ).fetchone()
            return None if row is None else decode(row[0])
        except (sqlite3.Error, msgspec.DecodeError):
            log.exception("a response cannot be read from the state store")
            return None

    def _delete(self, name: str, tenant: str) -> bool:
        done = self._file.execute(
            "DELETE FROM responses WHERE name = ? AND tenant = ?", (name, tenant)
        )
        return done.rowcount > 0
