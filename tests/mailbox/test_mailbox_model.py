"""Every kind of mailbox against one model of the contract, by random walks."""

import asyncio
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from legato.mailbox import (
    LoopInbox,
    Mailbox,
    MailboxBroken,
    MailboxClosed,
    MailboxEmpty,
    MailboxFull,
    Overflow,
    RemoteAddress,
    RemoteInbox,
    ThreadInbox,
)

URGENT = 2


class Word(msgspec.Struct, frozen=True):
    text: str


def join(older: Word, newer: Word) -> Word:
    return Word(older.text + newer.text)


class MailboxMachine(RuleBasedStateMachine):
    """Drives a mailbox; the model is three lists and two flags."""

    overflows = (Overflow.BACKPRESSURE, *Overflow)  # the first has most to go wrong
    turns_per_step = 3

    def open(self, capacity: int, overflow: Overflow) -> tuple[Any, Any]:
        merge = join if overflow is Overflow.COALESCE else None
        inbox = self.make()(
            "box", capacity, overflow=overflow, merge=merge, urgent_capacity=URGENT
        )
        return inbox, inbox.address()

    def make(self) -> Any:
        return Mailbox

    @initialize(capacity=st.integers(1, 2), data=st.data())
    def begin(self, capacity, data):
        self.loop = asyncio.new_event_loop()
        self.capacity = capacity
        self.overflow = data.draw(st.sampled_from(self.overflows))
        self.inbox, self.address = self.run(self.opened(capacity, self.overflow))
        self.items: list[str] = []
        self.urgent: list[str] = []
        self.waiting: list[tuple[str, asyncio.Task]] = []
        self.getting: asyncio.Task | None = None
        self.finished = self.closed = False
        self.count = 0

    async def opened(self, capacity, overflow):
        return self.open(capacity, overflow)

    def run(self, work):
        return self.loop.run_until_complete(work)

    def step(self, call):
        """Call inside the loop, and let it come to rest."""

        async def inside():
            try:
                return call(), None
            except (MailboxFull, MailboxEmpty, MailboxClosed, MailboxBroken) as error:
                return None, error
            finally:
                for _ in range(self.turns_per_step):
                    await asyncio.sleep(0)

        return self.run(inside())

    def settle(self):
        """Do in the model what must have happened since, and compare."""
        if self.getting is not None and (lane := self.urgent or self.items):
            assert self.getting.result().text == lane.pop(0)
            self.getting = None
        while self.waiting and not self.closed and len(self.items) < self.capacity:
            text, task = self.waiting.pop(0)
            assert task.done()
            assert task.exception() is None
            self.items.append(text)
        if self.closed:
            for _, task in self.waiting:
                assert isinstance(task.exception(), MailboxBroken)
            self.waiting.clear()
        assert not any(task.done() for _, task in self.waiting)
        if self.getting is not None and self.ended:
            assert isinstance(self.getting.exception(), MailboxClosed)
            self.getting = None
        assert self.getting is None or not self.getting.done()

    @property
    def ended(self):
        nothing = not (self.items or self.urgent)
        return nothing and (self.closed or (self.finished and not self.waiting))

    def refusal(self):
        """The error every put meets, if the mailbox takes nothing more."""
        if self.finished:
            return MailboxClosed
        return MailboxBroken if self.closed else None

    def word(self):
        self.count += 1
        return f"{self.count}."

    def expect_put(self, text, error):
        """Account for a put that does not wait."""
        if refusal := self.refusal():
            assert isinstance(error, refusal)
        elif not self.waiting and len(self.items) < self.capacity:
            assert error is None
            self.items.append(text)
        elif self.overflow is Overflow.COALESCE:
            assert error is None
            self.items[-1] += text
        else:
            assert isinstance(error, MailboxFull)

    @rule()
    def put_nowait(self):
        text = self.word()
        _, error = self.step(lambda: self.address.put_nowait(Word(text)))
        self.expect_put(text, error)
        self.settle()

    @rule(count=st.integers(1, 3))
    def put(self, count):
        for _ in range(count):
            self.put_one()

    def put_one(self):
        text = self.word()
        task = self.loop.create_task(self.address.put(Word(text)))
        self.step(lambda: None)
        if (
            self.overflow is Overflow.BACKPRESSURE
            and self.refusal() is None
            and (self.waiting or len(self.items) >= self.capacity)
        ):
            self.waiting.append((text, task))
        else:
            assert task.done()
            self.expect_put(text, task.exception())
        self.settle()

    @rule()
    def put_urgent(self):
        text = self.word()
        _, error = self.step(lambda: self.address.put_urgent(Word(text)))
        if refusal := self.refusal():
            assert isinstance(error, refusal)
        elif len(self.urgent) < URGENT:
            assert error is None
            self.urgent.append(text)
        else:
            assert isinstance(error, MailboxFull)
        self.settle()

    @precondition(lambda self: self.getting is None)
    @rule()
    def get_nowait(self):
        got, error = self.step(self.inbox.get_nowait)
        lane = self.urgent or self.items
        if lane:
            assert got.text == lane.pop(0)
        else:
            assert isinstance(error, MailboxClosed if self.ended else MailboxEmpty)
        self.settle()

    @precondition(lambda self: self.getting is None)
    @rule()
    def drain_nowait(self):
        got, _ = self.step(self.inbox.drain_nowait)
        assert [word.text for word in got] == self.urgent + self.items
        self.urgent, self.items = [], []
        self.settle()

    @precondition(lambda self: self.getting is None and hasattr(self.inbox, "get"))
    @rule()
    def get(self):
        self.getting = self.loop.create_task(self.inbox.get())
        self.step(lambda: None)
        self.settle()

    @precondition(lambda self: self.getting is not None)
    @rule()
    def cancel_get(self):
        task, self.getting = self.getting, None
        self.step(task.cancel)
        assert task.cancelled()
        self.settle()

    @precondition(lambda self: self.getting is not None)
    @rule()
    def cancel_get_as_a_message_comes(self):
        text = self.word()
        task, self.getting = self.getting, None

        def call():
            try:
                self.address.put_urgent(Word(text))
            finally:
                task.cancel()

        _, error = self.step(call)
        assert task.cancelled()
        if self.refusal() is None:
            assert error is None
            self.urgent.append(text)
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel_put(self, data):
        place = data.draw(st.integers(0, len(self.waiting) - 1))
        _, task = self.waiting.pop(place)
        self.step(task.cancel)
        assert task.cancelled()
        self.settle()

    @precondition(lambda self: self.waiting and self.getting is None)
    @rule(data=st.data())
    def cancel_put_as_room_comes(self, data):
        place = data.draw(st.integers(0, len(self.waiting) - 1))
        _, task = self.waiting.pop(place)

        def call():
            got = self.inbox.drain_nowait()
            task.cancel()
            return got

        got, _ = self.step(call)
        assert task.cancelled()
        assert [word.text for word in got] == self.urgent + self.items
        self.urgent, self.items = [], []
        self.settle()

    @precondition(lambda self: self.waiting and self.getting is None)
    @rule()
    def put_nowait_as_room_comes(self):
        refused = []

        def call():
            got = self.inbox.drain_nowait()
            try:
                self.address.put_nowait(Word("past those who wait"))
            except (MailboxFull, MailboxClosed) as error:
                refused.append(error)
            return got

        got, _ = self.step(call)
        assert len(refused) == 1
        assert [word.text for word in got] == self.urgent + self.items
        self.urgent, self.items = [], []
        self.settle()

    @precondition(lambda self: self.count > 20)
    @rule()
    def finish(self):
        self.step(self.address.close)
        self.finished = True
        self.settle()

    @precondition(lambda self: self.count > 20)
    @rule()
    def close(self):
        self.step(self.inbox.close)
        self.closed = True
        self.settle()

    @invariant()
    def the_counters_agree(self):
        if not hasattr(self, "inbox"):
            return
        stats = self.inbox.stats()
        assert stats.depth == len(self.items) <= self.capacity
        assert stats.urgent_depth == len(self.urgent) <= URGENT
        total = stats.got + stats.depth + stats.urgent_depth + stats.coalesced
        assert stats.put == total
        assert stats.waited_s >= 0

    def teardown(self):
        if not hasattr(self, "loop"):
            return
        tasks = [task for _, task in self.waiting]
        tasks += [self.getting] if self.getting else []

        async def end():
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for side in (self.inbox, self.address):
                if hasattr(side, "aclose"):
                    await side.aclose()

        self.run(end())
        self.loop.close()


class LoopInboxMachine(MailboxMachine):
    def make(self):
        return LoopInbox


class ThreadInboxMachine(MailboxMachine):
    """Taken from without waiting: the test's one thread may not block."""

    def make(self):
        return ThreadInbox


class RemoteMachine(MailboxMachine):
    """Coalescing keeps one message on the sender's side, where no drain sees it."""

    overflows = (Overflow.BACKPRESSURE, Overflow.REJECT)
    turns_per_step = 20

    async def opened(self, capacity, overflow):
        here, there = socket.socketpair()
        return await asyncio.gather(
            RemoteInbox.open(here, "box", capacity, Word, urgent_capacity=URGENT),
            RemoteAddress.open(there, "box", overflow=overflow),
        )


STEPS = settings(
    max_examples=60, derandomize=True, stateful_step_count=40, deadline=None
)


@pytest.mark.slow
def test_a_mailbox_in_a_loop_keeps_to_the_model():
    walk(MailboxMachine)


@pytest.mark.slow
def test_a_loop_inbox_keeps_to_the_model():
    walk(LoopInboxMachine)


@pytest.mark.slow
def test_a_thread_inbox_keeps_to_the_model():
    walk(ThreadInboxMachine)


@pytest.mark.slow
def test_a_mailbox_through_a_socket_keeps_to_the_model():
    walk(RemoteMachine)


def walk(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=STEPS)
