"""One sender, one consumer, one event loop: Legato's mailboxes and the usual queues.

Each function moves ``count`` messages and returns the seconds they took.
"""

import asyncio
import queue
from collections import deque
from collections.abc import Awaitable
from time import perf_counter

import anyio

from legato.mailbox import Mailbox

BURST = 256


async def timed(sending: Awaitable[None], receiving: Awaitable[None]) -> float:
    """Seconds until both are done."""
    started_s = perf_counter()
    await asyncio.gather(sending, receiving)
    return perf_counter() - started_s


# alone: two mailboxes, one message to and fro, each found by a sleeping consumer


async def alone_legato(count: int) -> float:
    there, back = Mailbox[int]("there", BURST), Mailbox[int]("back", BURST)
    to_there, to_back = there.address(), back.address()

    async def ask() -> None:
        for number in range(count // 2):
            await to_there.put(number)
            await back.get()

    async def answer() -> None:
        for _ in range(count // 2):
            await to_back.put(await there.get())

    return await timed(ask(), answer())


async def alone_asyncio(count: int) -> float:
    there: asyncio.Queue[int] = asyncio.Queue(BURST)
    back: asyncio.Queue[int] = asyncio.Queue(BURST)

    async def ask() -> None:
        for number in range(count // 2):
            await there.put(number)
            await back.get()

    async def answer() -> None:
        for _ in range(count // 2):
            await back.put(await there.get())

    return await timed(ask(), answer())


async def alone_anyio(count: int) -> float:
    to_there, there = anyio.create_memory_object_stream[int](BURST)
    to_back, back = anyio.create_memory_object_stream[int](BURST)

    async def ask() -> None:
        for number in range(count // 2):
            await to_there.send(number)
            await back.receive()

    async def answer() -> None:
        for _ in range(count // 2):
            await to_back.send(await there.receive())

    with to_there, there, to_back, back:
        return await timed(ask(), answer())


# full: capacity 1, so that sender and consumer take turns


async def full_legato(count: int) -> float:
    mailbox = Mailbox[int]("box", 1)
    address = mailbox.address()

    async def send() -> None:
        for number in range(count):
            await address.put(number)

    async def receive() -> None:
        for _ in range(count):
            await mailbox.get()

    return await timed(send(), receive())


async def full_asyncio(count: int) -> float:
    waiting: asyncio.Queue[int] = asyncio.Queue(1)

    async def send() -> None:
        for number in range(count):
            await waiting.put(number)

    async def receive() -> None:
        for _ in range(count):
            await waiting.get()

    return await timed(send(), receive())


async def full_anyio(count: int) -> float:
    sender, receiver = anyio.create_memory_object_stream[int](1)

    async def send() -> None:
        async with sender:
            for number in range(count):
                await sender.send(number)

    async def receive() -> None:
        async with receiver:
            for _ in range(count):
                await receiver.receive()

    return await timed(send(), receive())


# burst: the consumer sleeps, the sender fills, then sleeps for a turn of the loop


async def burst_legato(count: int) -> float:
    mailbox = Mailbox[int]("box", BURST)
    address = mailbox.address()

    async def send() -> None:
        for _ in range(count // BURST):
            for number in range(BURST):
                await address.put(number)
            await asyncio.sleep(0)

    async def receive() -> None:
        left = count // BURST * BURST
        while left:
            left -= len(await mailbox.drain())

    return await timed(send(), receive())


async def burst_asyncio(count: int) -> float:
    waiting: asyncio.Queue[int] = asyncio.Queue(BURST)

    async def send() -> None:
        for _ in range(count // BURST):
            for number in range(BURST):
                await waiting.put(number)
            await asyncio.sleep(0)

    async def receive() -> None:
        for _ in range(count // BURST * BURST):
            await waiting.get()

    return await timed(send(), receive())


async def burst_anyio(count: int) -> float:
    sender, receiver = anyio.create_memory_object_stream[int](BURST)

    async def send() -> None:
        async with sender:
            for _ in range(count // BURST):
                for number in range(BURST):
                    await sender.send(number)
                await asyncio.sleep(0)

    async def receive() -> None:
        async with receiver:
            for _ in range(count // BURST * BURST):
                await receiver.receive()

    return await timed(send(), receive())


# burst_nowait


async def nowait_legato(count: int) -> float:
    mailbox = Mailbox[int]("box", BURST)
    put = mailbox.address().put_nowait
    started_s = perf_counter()
    for _ in range(count // BURST):
        for number in range(BURST):
            put(number)
        mailbox.drain_nowait()
    return perf_counter() - started_s


async def nowait_asyncio(count: int) -> float:
    waiting: asyncio.Queue[int] = asyncio.Queue(BURST)
    started_s = perf_counter()
    for _ in range(count // BURST):
        for number in range(BURST):
            waiting.put_nowait(number)
        for _ in range(BURST):
            waiting.get_nowait()
    return perf_counter() - started_s


async def nowait_anyio(count: int) -> float:
    sender, receiver = anyio.create_memory_object_stream[int](BURST)
    started_s = perf_counter()
    with sender, receiver:
        for _ in range(count // BURST):
            for number in range(BURST):
                sender.send_nowait(number)
            for _ in range(BURST):
                receiver.receive_nowait()
    return perf_counter() - started_s


async def nowait_simple(count: int) -> float:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    started_s = perf_counter()
    for _ in range(count // BURST):
        for number in range(BURST):
            waiting.put(number)
        for _ in range(BURST):
            waiting.get_nowait()
    return perf_counter() - started_s


async def nowait_floor(count: int) -> float:
    waiting: deque[int] = deque()
    started_s = perf_counter()
    for _ in range(count // BURST):
        for number in range(BURST):
            waiting.append(number)
        for _ in range(BURST):
            waiting.popleft()
    return perf_counter() - started_s
