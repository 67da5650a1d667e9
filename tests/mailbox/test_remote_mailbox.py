"""What only a mailbox between two processes can meet."""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket

import msgspec
import pytest

from legato.mailbox import (
    MailboxBroken,
    MailboxClosed,
    MailboxMisused,
    MessageTooLarge,
    Overflow,
    RemoteAddress,
    RemoteInbox,
)
from legato.mailbox.frames import Kind, frame
from legato.protocol.errors import InvalidSetting

pytestmark = pytest.mark.anyio


class Start(msgspec.Struct, frozen=True, tag=True):
    number: int


class Stop(msgspec.Struct, frozen=True, tag=True):
    why: str


async def test_a_union_of_messages_comes_back_as_its_own_types():
    here, there = socket.socketpair()
    inbox, address = await asyncio.gather(
        RemoteInbox.open(here, "box", 4, Start | Stop),
        RemoteAddress.open(there, "box"),
    )
    await address.put(Start(1))
    await address.put(Stop("done"))
    assert [await inbox.get(), await inbox.get()] == [Start(1), Stop("done")]
    await asyncio.gather(address.aclose(), inbox.aclose())


async def test_a_message_too_large_is_refused_where_it_is_sent(ends, note):
    async with ends(2, max_message_bytes=64) as (inbox, address):
        for put in (address.put_nowait, address.put_urgent):
            with pytest.raises(MessageTooLarge, match=r"bytes is over .* of 64"):
                put(note("x" * 100))
        with pytest.raises(MessageTooLarge) as caught:
            await address.put(note("x" * 100))
        assert caught.value.limit_bytes == 64 < caught.value.size_bytes
        await address.put(note("fits"))
        assert await inbox.get() == note("fits")


def coalescing(ends, note, capacity, **options):
    def merge(older, newer):
        return note(older.text + newer.text)

    return ends(capacity, Overflow.COALESCE, merge, **options)


async def test_a_merge_that_would_grow_too_large_begins_another_message(ends, note):
    async with coalescing(ends, note, 2, max_message_bytes=64) as (inbox, address):
        for text in ("a", "b" * 30, "c" * 30, "d" * 40):
            address.put_nowait(note(text))
        stats = address.stats()
        assert (stats.put, stats.depth, stats.coalesced) == (4, 4, 0)
        with pytest.raises(MessageTooLarge):
            address.put_nowait(note("e" * 100))
        taken = [(await inbox.get()).text for _ in range(4)]
        assert taken == ["a", "b" * 30, "c" * 30, "d" * 40]


async def test_a_peer_that_lags_for_thousands_of_puts_gets_everything(ends, note):
    limit, encoded = 32 * 1024, []
    texts = [f"{n}:" + "é" * (n * 37 % 900) for n in range(3000)]
    total = sum(len(msgspec.msgpack.encode(note(text))) for text in texts)
    async with coalescing(ends, note, 3, max_message_bytes=limit) as (inbox, address):
        count_encodings(address, encoded)
        for text in texts:
            address.put_nowait(note(text))
        address.close()
        received = await take_to_the_end(inbox)
        await address.aclose()
        stats = address.stats()
    assert "".join(one.text for one in received) == "".join(texts)
    sizes = [len(msgspec.msgpack.encode(one)) for one in received]
    assert max(sizes) <= limit
    assert len(received) < 2 * total / limit
    assert len(encoded) <= len(texts) + len(received)
    assert sum(encoded) < 2 * total + limit
    assert (stats.put, stats.got, stats.depth) == (3000, len(received), 0)
    assert stats.coalesced == 3000 - len(received)


async def take_to_the_end(inbox):
    received = []
    try:
        while True:
            received.append(await inbox.get())
    except MailboxClosed:
        return received


def count_encodings(address, encoded):
    encode = address._credits.encode

    def counting(item):
        body = encode(item)
        encoded.append(len(body))
        return body

    address._credits.encode = address._credits.held._encode = counting


async def test_a_peer_that_reads_now_and_then_gets_it_in_order(ends, note, let_run):
    async with coalescing(ends, note, 2, max_message_bytes=256) as (inbox, address):
        received = ""
        for number in range(300):
            await address.put(note(f"{number}." + "x" * (number % 50)))
            if number % 7 == 0:
                received += (await inbox.get()).text
                await let_run(5)
            stats = address.stats()
            assert stats.put == number + 1 == stats.got + stats.depth + stats.coalesced
        address.close()
        received += "".join(one.text for one in await take_to_the_end(inbox))
    assert received == "".join(f"{n}." + "x" * (n % 50) for n in range(300))


async def test_the_bound_holds_end_to_end(ends, note, let_run):
    async with ends(3) as (inbox, address):
        puts = [asyncio.ensure_future(address.put(note(str(n)))) for n in range(9)]
        await let_run()
        assert sum(put.done() for put in puts) == 3
        for taken in range(1, 7):
            await inbox.get()
            await let_run()
            assert sum(put.done() for put in puts) == 3 + taken
        assert inbox.stats().high_water == 3


async def test_a_dead_consumer_breaks_every_put(ends, note, eventually):
    here, there = socket.socketpair()
    inbox, address = await asyncio.gather(
        RemoteInbox.open(here, "box", 1, note), RemoteAddress.open(there, "box")
    )
    await address.put(note("a"))
    waiting = asyncio.ensure_future(address.put(note("b")))
    await eventually(lambda: address.stats().depth == 1)
    inbox._wire.cut()
    with pytest.raises(MailboxBroken, match="consumer is gone"):
        await waiting
    with pytest.raises(MailboxBroken):
        address.put_nowait(note("c"))
    await asyncio.gather(address.aclose(), inbox.aclose())


async def test_an_address_that_is_cut_waits_for_no_consumer(note):
    here, there = socket.socketpair()
    inbox, address = await asyncio.gather(
        RemoteInbox.open(here, "box", 1, note), RemoteAddress.open(there, "box")
    )
    await address.put(note("a"))
    inbox._wire._transport.pause_reading()  # as a process that was stopped would
    address.cut()
    await address._wire.gone
    with pytest.raises(MailboxBroken):
        address.put_urgent(note("b"))
    await address.aclose()
    await inbox.aclose()


async def test_what_a_dead_sender_sent_is_delivered_first(note, eventually):
    here, there = socket.socketpair()
    inbox, address = await asyncio.gather(
        RemoteInbox.open(here, "box", 4, note), RemoteAddress.open(there, "box")
    )
    await address.put(note("a"))
    await address.put(note("b"))
    await eventually(lambda: inbox.stats().depth == 2)
    address._wire.cut()
    assert [(await inbox.get()).text for _ in range(2)] == ["a", "b"]
    with pytest.raises(MailboxBroken, match="sender is gone"):
        await inbox.get()
    await asyncio.gather(address.aclose(), inbox.aclose())


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        frame(Kind.DATA, b"\xc1"),
        frame(Kind.DATA, msgspec.msgpack.encode({"text": 7})),
        frame(Kind.CREDIT, b""),
        frame(Kind.FINISH) + frame(Kind.DATA, msgspec.msgpack.encode({"text": "a"})),
        frame(Kind.DATA, msgspec.msgpack.encode({"text": "a"})) * 2,
    ],
    ids=["http", "bytes", "type", "direction", "after-the-end", "over-the-bound"],
)
async def test_a_peer_that_breaks_the_protocol_is_cut_off(note, rubbish):
    here, there = socket.socketpair()
    inbox = await RemoteInbox.open(here, "box", 1, note, max_message_bytes=64)
    there.sendall(rubbish)

    async def take_all():
        while True:
            await inbox.get()

    with pytest.raises((MailboxBroken, MailboxClosed)):
        await take_all()
    there.close()
    await inbox.aclose()
    assert here.fileno() == -1


async def test_an_opening_that_fails_leaves_no_descriptor(note):
    here, there = socket.socketpair()
    here.close()
    with pytest.raises(MailboxBroken, match="never opened"):
        await RemoteAddress.open(there, "box")
    assert there.fileno() == -1
    here, there = socket.socketpair()
    with pytest.raises(InvalidSetting):
        await RemoteInbox.open(here, "box", 0, note)
    with pytest.raises(InvalidSetting):
        await RemoteAddress.open(there, "box", overflow=Overflow.COALESCE)
    assert here.fileno() == there.fileno() == -1


@pytest.mark.parametrize("turns", range(4))
async def test_an_opening_that_is_cancelled_leaves_nothing(eventually, turns):
    unheard = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unheard.append(context)
    )
    here, there = socket.socketpair()
    opening = asyncio.ensure_future(RemoteAddress.open(there, "box"))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    if turns:  # else it never began, and the socket is still its caller's
        await eventually(lambda: there.fileno() == -1)
    here.close()
    there.close()
    await asyncio.sleep(0)
    del opening
    gc.collect()
    assert not unheard


async def test_coalescing_needs_a_place_on_each_side(note, eventually):
    here, there = socket.socketpair()
    inbox = await RemoteInbox.open(here, "box", 1, note)
    with pytest.raises(InvalidSetting, match="capacity of 2"):
        await RemoteAddress.open(
            there, "box", overflow=Overflow.COALESCE, merge=lambda older, newer: newer
        )
    await eventually(lambda: there.fileno() == -1)
    await inbox.aclose()


async def test_another_loop_may_not_use_an_end(ends, note):
    async with ends(2) as (inbox, address):

        async def elsewhere():
            for call in (inbox.get, inbox.drain, lambda: address.put(note("a"))):
                with pytest.raises(MailboxMisused, match="'box'"):
                    await call()
            for call in (inbox.get_nowait, address.close, inbox.close):
                with pytest.raises(MailboxMisused):
                    call()

        await asyncio.to_thread(asyncio.run, elsewhere())
        await address.put(note("a"))
        assert await inbox.get() == note("a")


def send_and_be_killed(sock: socket.socket) -> None:
    async def send() -> None:
        address: RemoteAddress[Start] = await RemoteAddress.open(sock, "box")
        for number in range(3):
            await address.put(Start(number))
        await asyncio.Event().wait()

    asyncio.run(send())


@pytest.mark.slow
async def test_a_killed_process_breaks_the_mailbox_after_what_it_sent():
    here, there = socket.socketpair()
    child = multiprocessing.get_context("spawn").Process(
        target=send_and_be_killed, args=(there,)
    )
    child.start()
    there.close()
    inbox = await RemoteInbox.open(here, "box", 8, Start)
    received = []
    while len(received) < 3:
        received += await inbox.drain()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(MailboxBroken):
        await inbox.get()
    assert received == [Start(0), Start(1), Start(2)]
    await asyncio.to_thread(child.join)
    await inbox.aclose()
    assert here.fileno() == -1
