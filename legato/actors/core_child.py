"""The engine core in a process of its own: the child's side of it.

Run as ``python -m legato.actors.core_child ORDERS_FD REPORTS_FD STACKS_FD``, with the
pickled ``CoreSpec`` on standard input; only ``core_process`` does so.
"""

import asyncio
import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import socket
import sys
import threading

from ..mailbox import (
    Address,
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
    Overflow,
    RemoteAddress,
    RemoteInbox,
)
from ..protocol.core import CoreReport, StopCore
from ..protocol.errors import Failure
from ..protocol.requests import Admit
from .core import CoreSpec, new_loop
from .orders import Order
from .scheduler import Event
from .switching import Switching

# A device that hangs must not keep an orphan alive.
ORPHAN_S = 10.0


def main() -> None:
    """Serve one front end, then leave."""
    orders_fd, reports_fd, stacks_fd = map(int, sys.argv[1:4])
    # What it was doing when it crashed, or when the parent says that it hangs. Written
    # by the signal's handler itself, whatever holds the interpreter; then it dies.
    faulthandler.enable(stacks_fd)
    faulthandler.register(signal.SIGUSR1, stacks_fd, chain=True)
    # Ctrl-C reaches the whole process group; when to end is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spec = pickle.load(sys.stdin.buffer)
    sys.stdin.close()
    Switching().shorten()
    # What was imported stays for good; the collector need not look at it again.
    gc.freeze()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(
                serve(
                    spec,
                    socket.socket(fileno=orders_fd),
                    socket.socket(fileno=reports_fd),
                )
            )
        except MailboxBroken:
            sys.exit(1)  # the parent left before, or while, it was served


async def serve(
    spec: CoreSpec, orders_socket: socket.socket, reports_socket: socket.socket
) -> None:
    """Run a scheduler between the two sockets until it is told to stop."""
    orders = await RemoteInbox[Order].open(
        orders_socket,
        "orders",
        spec.max_orders,
        Order,
        urgent_capacity=4 * spec.max_orders,
    )
    reports = await RemoteAddress[CoreReport].open(
        reports_socket,
        "reports",
        overflow=Overflow.COALESCE,
        merge=CoreReport.merge,
    )
    inbox = spec.inbox()
    scheduler = spec.scheduler(inbox, reports)
    try:
        async with asyncio.TaskGroup() as group:
            passing = group.create_task(pass_on(orders, inbox.address()))
            await scheduler.run()
            passing.cancel()
    except* Exception as errors:
        # The parent hears the cause, and its keeper has another core take over.
        with contextlib.suppress(MailboxBroken):
            reports.put_nowait(CoreReport(lost=Failure.of(errors.exceptions[0])))
        raise
    finally:
        await orders.aclose()
        try:
            await reports.aclose()
        except MailboxBroken:
            pass  # the parent has left already


async def pass_on(orders: RemoteInbox[Order], scheduler: Address[Event]) -> None:
    """Hand orders over to the scheduler; stop it when the parent is gone."""
    try:
        while True:
            for order in await orders.drain():
                await hand_over(order, scheduler)
    except MailboxBroken:
        # The parent died, or sent what cannot be read. Whatever this core would still
        # say could only harm: the streams are the next core's, if there is one.
        os._exit(1)
    except MailboxClosed:
        leave = threading.Timer(ORPHAN_S, os._exit, [1])
        leave.daemon = True
        leave.start()
        try:
            await scheduler.put(StopCore())
        except (MailboxBroken, MailboxClosed):
            pass  # it is stopping already


async def hand_over(order: Order, scheduler: Address[Event]) -> None:
    """Put an order in its lane; behind the others if the urgent one is full."""
    if not isinstance(order, Admit):
        try:
            scheduler.put_urgent(order)
            return
        except MailboxFull:
            pass  # a flood: it waits for its turn
    await scheduler.put(order)


if __name__ == "__main__":
    main()
