"""The sending end of a mailbox between two processes."""

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from ..protocol.errors import (
    InvalidSetting,
    MailboxBroken,
    MailboxMisused,
    MessageTooLarge,
)
from .credits import Credits
from .frames import Credit, Hello, Kind
from .lanes import State
from .loop_lanes import running_loop
from .overflow import Overflow
from .stats import MailboxStats
from .wire import Wire, malformed

T = TypeVar("T")

# Of HELLO and CREDIT, the only frames this end reads.
MAX_REPLY_BYTES = 64


class RemoteAddress(Generic[T]):
    """An ``Address`` through a socket, in the loop that opened it.

    It is the mailbox's one sender on this side; tasks share it. A message is encoded
    when it is put, so that nothing done to it later crosses. Only under COALESCE is one
    that waits kept as it is, to be merged: those must not be changed.
    """

    def __init__(self, credits: Credits[T]) -> None:
        self._credits = credits
        self._wire = Wire(MAX_REPLY_BYTES, self._on_frame, lambda: None, self._on_lost)
        self._hello: asyncio.Future[None] = self._wire.loop.create_future()
        # An opening that is cancelled leaves nobody to hear why it failed besides.
        self._hello.add_done_callback(retrieve)
        self._finish_sent = False

    @classmethod
    async def open(
        cls,
        sock: socket.socket,
        name: str,
        *,
        overflow: Overflow = Overflow.BACKPRESSURE,
        merge: Callable[[T, T], T] | None = None,
    ) -> "RemoteAddress[T]":
        """Take over a connected stream socket; wait until the consumer's end opens.

        Args:
            sock: From here on this address's; closed with it, or if opening fails or
                is cancelled.
            name: For errors and metrics.
            overflow: What happens to a message when the other end's capacity is used.
            merge: ``merge(older, newer)``, associative and without side effects; with
                COALESCE, and only then.

        Raises:
            InvalidSetting: Overflow, merge and the capacity do not fit each other.
            MailboxBroken: The other end went away before it opened.
            OSError: Not a connected stream socket.
        """
        try:
            address = cls(Credits(name, overflow, merge))
        except BaseException:
            sock.close()
            raise
        await address._wire.open(sock)
        try:
            await address._hello
        except BaseException:
            address._wire.cut()
            raise
        return address

    async def put(self, item: T) -> None:
        """Put a message, waiting for credit; cancelled, it has not put it.

        Raises:
            MailboxFull: The mailbox rejects instead of waiting.
            MessageTooLarge: Longer than the consumer's end reads.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's address.
        """
        body = self._encode(item)
        if self._pass(item, body):
            return
        credits = self._credits
        if credits.overflow is Overflow.REJECT:
            raise credits.full()
        turn = self._wire.loop.create_future()
        credits.turns.join(turn)
        try:
            await turn
        except BaseException:
            if credits.state is not State.BROKEN:
                credits.turns.leave(turn)
                self._advance()
            raise
        if credits.state is State.BROKEN:
            raise credits.gone()
        credits.turns.enter()
        credits.spend()
        self._wire.send(Kind.DATA, body)
        self._advance()

    def put_nowait(self, item: T) -> None:
        """Put a message at once.

        Raises:
            MailboxFull: No credit, or others wait for it.
            MessageTooLarge: Longer than the consumer's end reads.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's address.
        """
        if not self._pass(item, self._encode(item)):
            raise self._credits.full()

    def put_urgent(self, item: T) -> None:
        """Put a message past all that are not urgent; it never waits.

        Raises:
            MailboxFull: The urgent lane's own bound is reached.
            MessageTooLarge: Longer than the consumer's end reads.
            MailboxClosed, MailboxBroken: The mailbox takes nothing more.
            MailboxMisused: Another loop's address.
        """
        body = self._encode(item)
        self._credits.spend_urgent()
        self._wire.send(Kind.URGENT, body)

    def close(self) -> None:
        """End the sending side; puts that wait still cross, then the consumer ends.

        Raises:
            MailboxMisused: Another loop's address.
        """
        self._check()
        self._credits.closed = True
        if self._credits.state is State.OPEN:
            self._credits.state = State.FINISHED
            self._advance()

    async def aclose(self) -> None:
        """Close, and wait until the consumer's end has everything.

        Cancelled, it cuts the wire, and what had not crossed is lost.
        """
        self.close()
        try:
            await asyncio.shield(self._wire.gone)
        finally:
            self._wire.cut()

    def cut(self) -> None:
        """Close at once, whatever the consumer does; what has not crossed is lost.

        Raises:
            MailboxMisused: Another loop's address.
        """
        self._check()
        self._wire.cut()

    def stats(self) -> MailboxStats:
        """Read the figures as this end knows them: a message counts until credited."""
        return self._credits.stats()

    def _check(self) -> None:
        if running_loop() is not self._wire.loop:
            raise MailboxMisused(
                f"mailbox {self._credits.name!r}: this address belongs to the event "
                "loop that opened it; from elsewhere, put into a LoopInbox there"
            )

    def _encode(self, item: T) -> bytes:
        self._check()
        self._credits.check_open()
        body = self._credits.encode(item)
        if len(body) > (limit := self._credits.hello.max_message_bytes):
            raise MessageTooLarge(self._credits.name, len(body), limit)
        return body

    def _pass(self, item: T, body: bytes) -> bool:
        """Send a message, or hold it back to merge; else its sender must wait."""
        credits = self._credits
        if credits.passes:
            credits.spend()
            self._wire.send(Kind.DATA, body)
        elif credits.merge is None:
            return False
        else:
            credits.hold(item, len(body))
        return True

    def _advance(self) -> None:
        """Send what credit allows, then wake who waits, then end if that is due."""
        credits = self._credits
        while credits.held and credits.ordinary:
            self._wire.send(Kind.DATA, credits.release())
        for turn in credits.turns.grant(credits.ordinary):
            if not turn.done():
                turn.set_result(None)
        waiting = credits.turns.pending or credits.held
        if credits.state is State.FINISHED and not waiting and not self._finish_sent:
            self._finish_sent = True
            self._wire.send(Kind.FINISH)

    def _on_frame(self, kind: Kind, body: memoryview) -> None:
        if kind is Kind.HELLO and not self._hello.done():
            hello = msgspec.msgpack.decode(body, type=Hello)
            try:
                self._credits.begin(hello)
            except InvalidSetting as error:  # the opener's fault, not the wire's
                self._hello.set_exception(error)
            else:
                self._hello.set_result(None)
        elif kind is Kind.CREDIT and self._hello.done():
            self._credits.earn(msgspec.msgpack.decode(body, type=Credit))
            self._advance()
        else:
            raise malformed(kind)

    def _on_lost(self, cause: BaseException | None) -> None:
        if not self._hello.done():
            error = MailboxBroken(
                f"mailbox {self._credits.name!r}: its consumer never opened"
            )
            error.__cause__ = cause
            self._hello.set_exception(error)
            return
        credits = self._credits
        if self._finish_sent and cause is None:
            credits.settle()
        else:
            credits.state = State.BROKEN
            for turn in credits.turns.clear():
                if not turn.done():
                    turn.set_result(None)


def retrieve(future: "asyncio.Future[None]") -> None:
    """Look at a future's error, so that nobody is warned of it."""
    if not future.cancelled():
        future.exception()
