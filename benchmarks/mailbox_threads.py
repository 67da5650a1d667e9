"""One sender, one consumer, in two threads or two processes; and their rivals.

Each function moves ``count`` messages and returns the seconds they took.
"""

import asyncio
import multiprocessing
import queue
import socket
import threading
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from time import perf_counter

import msgspec
import uvloop
from mailbox_tasks import timed

from legato.mailbox import (
    Address,
    LoopInbox,
    MailboxClosed,
    RemoteAddress,
    RemoteInbox,
    ThreadInbox,
)

CAPACITY = 1024


class Token(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message of a usual size on the step path."""

    request: int
    token: int


TOKEN = Token(7, 42)


# to_loop


async def from_thread(send: Callable[[], None], receive: Awaitable[None]) -> float:
    """Seconds that a thread's messages take into this loop."""
    thread = threading.Thread(target=send)
    started_s = perf_counter()
    thread.start()
    await receive
    taken_s = perf_counter() - started_s
    thread.join()
    return taken_s


async def to_loop_legato(count: int) -> float:
    inbox = LoopInbox[int]("box", CAPACITY)
    address = inbox.address()

    def send() -> None:
        for number in range(count):
            address.put_blocking(number)

    async def receive() -> None:
        left = count
        while left:
            left -= len(await inbox.drain())

    return await from_thread(send, receive())


async def to_loop_asyncio(count: int) -> float:
    waiting: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def send() -> None:
        for number in range(count):
            loop.call_soon_threadsafe(waiting.put_nowait, number)

    async def receive() -> None:
        for _ in range(count):
            await waiting.get()

    return await from_thread(send, receive())


# to_thread


async def into_thread(send: Awaitable[None], receive: Callable[[], None]) -> float:
    """Seconds that this loop's messages take into a thread."""
    done = asyncio.to_thread(receive)
    return await timed(send, done)


async def to_thread_legato(count: int) -> float:
    inbox = ThreadInbox[int]("box", CAPACITY)
    address: Address[int] = inbox.address()

    async def send() -> None:
        for number in range(count):
            await address.put(number)

    def receive() -> None:
        left = count
        while left:
            left -= len(inbox.drain_blocking())

    return await into_thread(send(), receive)


async def to_thread_simple(count: int) -> float:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def send() -> None:
        for number in range(count):
            waiting.put(number)

    def receive() -> None:
        for _ in range(count):
            waiting.get()

    return await into_thread(send(), receive)


# process


def child_legato(sock: socket.socket, count: int) -> None:
    async def send() -> None:
        address = await RemoteAddress[Token].open(sock, "box")
        for _ in range(count):
            await address.put(TOKEN)
        await address.aclose()

    uvloop.run(send())


async def process_legato(count: int) -> float:
    here, there = socket.socketpair()
    child = multiprocessing.get_context("spawn").Process(
        target=child_legato, args=(there, count)
    )
    child.start()
    there.close()
    inbox = await RemoteInbox[Token].open(here, "box", CAPACITY, Token)
    await inbox.get()
    started_s = perf_counter()
    try:
        while True:
            await inbox.drain()
    except MailboxClosed:
        taken_s = perf_counter() - started_s
    await inbox.aclose()
    await asyncio.to_thread(child.join)
    return taken_s


def child_pipe(pipe: Connection, count: int) -> None:
    for _ in range(count):
        pipe.send(TOKEN)


async def process_pipe(count: int) -> float:
    """The rival has no loop of its own: a thread reads, and hands nothing on."""
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(
        target=child_pipe, args=(there, count)
    )
    child.start()
    there.close()

    def receive() -> float:
        here.recv()
        started_s = perf_counter()
        for _ in range(count - 1):
            here.recv()
        return perf_counter() - started_s

    taken_s = await asyncio.to_thread(receive)
    await asyncio.to_thread(child.join)
    here.close()
    return taken_s
