"""What both stores promise, and what only the file does."""

import sqlite3

import msgspec
import pytest

from legato.protocol.errors import InvalidSetting
from legato.protocol.requests import ChatMessage
from legato.serve.responses.store import MemoryStore, Stored, StoreLimits
from legato.serve.responses.store_file import FileStore

pytestmark = pytest.mark.anyio
LIMITS = StoreLimits(entries=3, max_bytes=10_000, ttl_s=100.0)


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def stored(name, tenant="", size=10, events=None):
    return Stored(
        name=name,
        tenant=tenant,
        response=b"x" * size,
        items=b"[]",
        turns=(ChatMessage("user", "hi"), ChatMessage("assistant", name)),
        events=events,
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file"])
async def store(request, tmp_path, clock):
    if request.param == "memory":
        store = MemoryStore(LIMITS, clock)
    else:
        store = FileStore(str(tmp_path / "state"), LIMITS, clock)
    yield store
    await store.close()


async def settled(store):
    """Wait until a file has been written."""
    if isinstance(store, FileStore):
        while store._waiting:
            await store.get("no such", "")


async def test_what_is_put_is_found_whole_and_at_once(store):
    one = stored("a", events=b"\x00\xff")
    store.put(one)
    assert await store.get("a", "") == one
    await settled(store)
    assert await store.get("a", "") == one
    assert await store.get("b", "") is None


async def test_a_response_is_found_by_its_own_tenant_alone(store):
    store.put(stored("a", tenant="key-1"))
    for _ in range(2):
        assert await store.get("a", "key-2") is None
        assert await store.get("a", "") is None
        assert not await store.delete("a", "key-2")
        await settled(store)
    assert await store.get("a", "key-1") is not None


async def test_a_deleted_response_is_gone(store):
    store.put(stored("a"))
    assert await store.delete("a", "")
    assert not await store.delete("a", "")
    assert await store.get("a", "") is None


async def test_a_second_one_of_a_name_replaces_the_first(store):
    store.put(stored("a"))
    store.put(stored("a", size=20))
    await settled(store)
    assert (await store.get("a", "")).response == b"x" * 20


async def test_what_is_too_old_is_not_found(store, clock):
    store.put(stored("a"))
    await settled(store)
    clock.now_s += 99
    assert await store.get("a", "") is not None
    clock.now_s += 2
    assert await store.get("a", "") is None


async def test_what_was_asked_for_longest_ago_makes_room(store, clock):
    for name in ("a", "b", "c"):
        store.put(stored(name))
        clock.now_s += 1
        await settled(store)
    await store.get("a", "")
    clock.now_s += 1
    store.put(stored("d"))
    await settled(store)
    assert [n for n in "abcd" if await store.get(n, "") is not None] == ["a", "c", "d"]


async def test_bytes_are_bounded_and_what_is_too_large_alone_is_not_kept(store):
    for name in ("a", "b", "c"):
        store.put(stored(name, size=4_000))
        await settled(store)
    assert await store.get("a", "") is None
    assert await store.get("c", "") is not None
    store.put(stored("huge", size=20_000))
    await settled(store)
    assert await store.get("huge", "") is None
    assert await store.get("c", "") is not None


async def test_a_file_keeps_what_an_earlier_process_put(tmp_path):
    path = str(tmp_path / "state")
    first = FileStore(path, LIMITS)
    one = stored("a", tenant="key-1", events=b"e")
    first.put(one)
    await first.close()
    second = FileStore(path, LIMITS)
    assert await second.get("a", "key-1") == one
    await second.close()


async def test_a_file_that_cannot_be_used_says_why(tmp_path):
    with pytest.raises(InvalidSetting, match="unable to open"):
        FileStore(str(tmp_path / "no" / "state"), LIMITS)
    path = tmp_path / "other"
    path.write_bytes(b"this is no database, of any kind" * 100)
    with pytest.raises(InvalidSetting, match="not a database"):
        FileStore(str(path), LIMITS)
    newer = tmp_path / "newer"
    with sqlite3.connect(newer) as file:
        file.execute("PRAGMA user_version = 9")
    file.close()
    with pytest.raises(InvalidSetting, match="version 9"):
        FileStore(str(newer), LIMITS)


async def test_a_row_that_cannot_be_read_is_not_found(tmp_path, caplog):
    path = str(tmp_path / "state")
    store = FileStore(path, LIMITS)
    store.put(stored("a"))
    await settled(store)
    other = sqlite3.connect(path)
    other.execute("UPDATE responses SET data = ?", (msgspec.msgpack.encode(5),))
    other.commit()
    other.close()
    assert await store.get("a", "") is None
    assert "cannot be read" in caplog.text
    await store.close()
