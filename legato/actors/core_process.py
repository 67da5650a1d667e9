"""The engine core in a process of its own: the front end's side of it.

The same scheduler, executor and messages as in a thread; between the loops lie two
socket pairs, which have no name and die with the processes. The child leaves when its
parent does, and its death is reported like that of any other core.
"""

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from typing import IO

from ..mailbox import (
    Address,
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
    RemoteAddress,
    RemoteInbox,
)
from ..protocol.core import CoreReport, StopCore
from ..protocol.errors import EngineFailed, Failure, InvalidSetting
from .blocking import in_thread
from .core import CoreSpec
from .orders import Order
from .stacks import open_stacks, read_stacks

log = logging.getLogger("legato.core")

MAX_REPORTS = 64
LEAVE_S = 20.0
# To write down where it stands, and to be killed. One that waits in a driver does not
# hear even that.
DUMP_S = 5.0
KILL_S = 10.0


class ProcessCore:
    """A core in a child process.

    Args:
        spec: What it is made of; must be picklable.
        reports: The front end's inbox.

    Raises:
        InvalidSetting: This platform cannot hand sockets to a child.
    """

    def __init__(self, spec: CoreSpec, reports: Address[CoreReport]) -> None:
        if sys.platform == "win32":
            raise InvalidSetting(
                'placement "process" needs a Unix system; use "thread"'
            )
        self._spec = spec
        self._reports = reports
        self._child: subprocess.Popen[bytes] | None = None
        self._orders: RemoteAddress[Order] | None = None
        self._inbox: RemoteInbox[CoreReport] | None = None
        self._pump: asyncio.Task[None] | None = None
        self._stopping = False
        self._hung: Failure | None = None
        self._stacks: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, once it is started."""
        return None if self._child is None else self._child.pid

    async def start(self) -> Address[Order]:
        """Start the child and connect to it.

        Raises:
            EngineFailed: It died before it answered.
        """
        orders, their_orders = socket.socketpair()
        reports, their_reports = socket.socketpair()
        try:
            await in_thread(lambda: self._spawn(their_orders, their_reports))
        except BaseException:
            orders.close()
            reports.close()
            raise
        finally:
            their_orders.close()
            their_reports.close()
        try:
            self._inbox = await RemoteInbox[CoreReport].open(
                reports, "reports", MAX_REPORTS, CoreReport
            )
        except BaseException:
            orders.close()
            raise
        try:
            self._orders = await RemoteAddress[Order].open(orders, "orders")
        except MailboxBroken as error:
            await self.join()
            raise EngineFailed(self._obituary()) from error
        self._pump = asyncio.create_task(self._pass_on(), name="legato-reports")
        return self._orders

    def stop(self) -> None:
        """Ask it to end. Idempotent."""
        self._stopping = True
        if self._orders is not None:
            try:
                self._orders.put_urgent(StopCore())
                self._orders.close()
            except MailboxFull:
                self._orders.close()  # it stops at the end of its orders
            except (MailboxBroken, MailboxClosed):
                pass  # it has ended by itself

    async def interrupt(self, failure: Failure) -> bool:
        """Have the child write down where it stands, and kill it.

        Cancelling leaves it dying, or about to be killed by ``join``.
        """
        child = self._child
        if child is None or self._inbox is None or self._orders is None:
            return False
        self._hung = failure
        child.send_signal(signal.SIGUSR1)
        await in_thread(lambda: _reap(child, DUMP_S))
        # Where even a kill waits for a driver, the sockets would stay open.
        self._orders.cut()
        self._inbox.close()
        return True

    async def join(self) -> None:
        """Wait until the child has left, and end it if it does not. Idempotent."""
        if self._orders is None and self._child is not None:
            self._child.kill()  # it was never in service, and hears nobody
        await self._reap()
        if self._pump is not None:
            await asyncio.wait([self._pump])
        for end in (self._orders, self._inbox):
            if end is not None:
                await end.aclose()
        if self._stacks is not None:
            self._stacks.close()

    async def _pass_on(self) -> None:
        assert self._inbox is not None, "started after the inbox is open"
        told = False
        broken: Exception | None = None
        while True:
            try:
                for report in await self._inbox.drain():
                    told = told or report.lost is not None
                    self._put(report)
            except (MailboxBroken, MailboxClosed):
                break
            except Exception as error:
                # What was not passed on is missing for good; the next core, which is
                # told what readers have, makes it again.
                log.exception("the reports of a core cannot be passed on")
                broken = error
                break
        if broken is not None and self._child is not None:
            self._child.kill()
        if not (self._stopping or told):
            await self._reap()
            self._log_stacks()
            cause = Failure.of(broken or EngineFailed(self._obituary()))
            self._put(CoreReport(lost=self._hung or cause))

    def _spawn(self, orders: socket.socket, reports: socket.socket) -> None:
        # Kept at once: a start that is cancelled must still find it, to end it.
        self._stacks = open_stacks()
        self._child = _spawn(orders, reports, self._stacks)
        _send_spec(self._child, self._spec)

    async def _reap(self) -> None:
        child = self._child
        if child is not None:
            await in_thread(lambda: _reap(child, LEAVE_S))

    def _log_stacks(self) -> None:
        text = "" if self._stacks is None else read_stacks(self._stacks)
        if text:
            log.error("the core process ended here:\n%s", text)

    def _put(self, report: CoreReport) -> None:
        try:
            self._reports.put_nowait(report)
        except (MailboxBroken, MailboxClosed):
            self._stopping = True  # the front end has left already

    def _obituary(self) -> str:
        code = None if self._child is None else self._child.returncode
        if code is not None and code < 0:
            return f"the core process was killed by signal {-code}"
        return f"the core process left with exit code {code}"


def _spawn(
    orders: socket.socket, reports: socket.socket, stacks: IO[bytes]
) -> subprocess.Popen[bytes]:
    # Not multiprocessing: its spawn runs the caller's main module again, and asks
    # every user's script for a guard against that.
    fds = (orders.fileno(), reports.fileno(), stacks.fileno())
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.core_child", *map(str, fds)],
        stdin=subprocess.PIPE,
        pass_fds=fds,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


def _send_spec(child: "subprocess.Popen[bytes]", spec: CoreSpec) -> None:
    assert child.stdin is not None, "asked for when it was started"
    try:
        with child.stdin as pipe:
            pickle.dump(spec, pipe)
    except BrokenPipeError:
        pass  # it died at once; opening its mailbox will say so


def _reap(child: "subprocess.Popen[bytes]", patience_s: float) -> None:
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            child.wait(KILL_S)
        except subprocess.TimeoutExpired:
            log.error("process %d cannot be killed, and is left behind", child.pid)
