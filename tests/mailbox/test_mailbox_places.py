"""Where a mailbox may be used, and how it says so; settings that cannot work."""

import asyncio
import threading

import pytest

from legato.mailbox import (
    LoopInbox,
    Mailbox,
    MailboxBroken,
    MailboxClosed,
    MailboxEmpty,
    MailboxMisused,
    Overflow,
    ThreadInbox,
)
from legato.mailbox.wakers import LoopWaker, ThreadWaker, wake
from legato.protocol.errors import InvalidSetting


def in_thread(call):
    """What a call in a thread of its own raises or returns."""
    outcome = []

    def run():
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_mailbox_is_refused_in_any_other_thread(waiting):
    async def main():
        mailbox = Mailbox[int]("box", 4)
        address = mailbox.address()
        await address.put(0)
        if not waiting:
            await mailbox.get()
        calls = (
            lambda: address.put_nowait(1),
            lambda: address.put_urgent(1),
            lambda: asyncio.run(address.put(1)),
            lambda: asyncio.run(mailbox.get()),
            lambda: asyncio.run(mailbox.drain()),
            mailbox.get_nowait,
            mailbox.drain_nowait,
            mailbox.finish,
            mailbox.close,
            address.close,
        )
        for call in calls:
            error = in_thread(call)
            assert isinstance(error, MailboxMisused)
            assert isinstance(error, RuntimeError)
            assert "'box'" in str(error)
            assert "LoopInbox" in str(error)
        assert mailbox.stats().depth == waiting

    asyncio.run(main())


def test_a_mailbox_is_refused_in_a_later_loop_of_its_thread():
    mailbox = Mailbox[int]("box", 4)
    address = mailbox.address()

    async def use():
        await address.put(1)
        return await mailbox.get()

    assert asyncio.run(use()) == 1
    with pytest.raises(MailboxMisused):
        asyncio.run(use())


def test_a_mailbox_may_be_filled_before_its_loop_runs():
    mailbox = Mailbox[int]("box", 4)
    mailbox.address().put_nowait(1)
    assert asyncio.run(mailbox.get()) == 1


def test_a_second_consumer_is_refused():
    async def main(mailbox):
        first = asyncio.ensure_future(mailbox.get())
        await asyncio.sleep(0)
        with pytest.raises(MailboxMisused, match="one consumer"):
            await mailbox.get()
        mailbox.address().put_nowait(1)
        assert await first == 1

    asyncio.run(main(Mailbox[int]("box", 4)))
    asyncio.run(main(LoopInbox[int]("box", 4)))


def test_a_loop_inbox_is_taken_from_in_one_loop_only():
    inbox = LoopInbox[int]("box", 4)
    address = inbox.address()
    address.put_nowait(1)
    assert asyncio.run(inbox.get()) == 1
    with pytest.raises(MailboxMisused, match="'box'"):
        asyncio.run(inbox.get())
    with pytest.raises(MailboxMisused):
        inbox.drain_nowait()


def test_blocking_calls_are_refused_where_they_would_stop_a_loop():
    async def main():
        loop_inbox, thread_inbox = LoopInbox[int]("a", 1), ThreadInbox[int]("b", 1)
        with pytest.raises(MailboxMisused, match="await put"):
            loop_inbox.address().put_blocking(1)
        with pytest.raises(MailboxMisused, match="LoopInbox"):
            thread_inbox.get_blocking()

    asyncio.run(main())


def test_blocking_calls_give_up_in_time_and_leave_nothing_behind():
    inbox = ThreadInbox[int]("box", 1)
    address = inbox.address()
    with pytest.raises(TimeoutError):
        inbox.get_blocking(0.001)
    with pytest.raises(TimeoutError):
        inbox.drain_blocking(0)
    address.put_blocking(1, 0)
    with pytest.raises(TimeoutError):
        address.put_blocking(2, 0.001)
    assert inbox.drain_blocking() == [1]
    address.put_nowait(3)
    assert inbox.get_nowait() == 3
    with pytest.raises(MailboxEmpty):
        inbox.get_nowait()


def test_a_sender_in_a_closed_loop_blocks_nobody():
    inbox = ThreadInbox[int]("box", 1)
    address = inbox.address()
    address.put_nowait(1)
    loop = asyncio.new_event_loop()
    task = loop.create_task(address.put(2))
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # it is what this test is about
    loop.close()
    assert inbox.get_nowait() == 1
    address.put_nowait(3)
    assert inbox.get_nowait() == 3
    task.get_coro().close()


def test_every_address_counts_until_it_is_closed():
    async def main():
        mailbox = Mailbox[int]("box", 4)
        one, two = mailbox.address(), mailbox.address()
        one.close()
        one.close()
        with pytest.raises(MailboxClosed):
            await one.put(1)
        await two.put(2)
        two.close()
        assert await mailbox.drain() == [2]
        with pytest.raises(MailboxClosed):
            mailbox.get_nowait()
        with pytest.raises(MailboxClosed):
            mailbox.address()

    asyncio.run(main())


def test_a_burst_interrupts_the_consumers_loop_once():
    async def main():
        inbox = LoopInbox[int]("box", 64)
        address = inbox.address()
        loop = asyncio.get_running_loop()
        interrupts = []
        plain = loop.call_soon_threadsafe

        def counted(*arguments):
            interrupts.append(arguments)
            return plain(*arguments)

        getting = asyncio.ensure_future(inbox.drain())
        await asyncio.sleep(0)
        loop.call_soon_threadsafe = counted
        in_thread(lambda: [address.put_blocking(number) for number in range(50)])
        loop.call_soon_threadsafe = plain
        assert await getting == list(range(50))
        assert len(interrupts) == 1

    asyncio.run(main())


def test_a_consumer_that_never_waits_lets_its_loop_run():
    async def main():
        inbox = LoopInbox[int]("box", 1)
        address = inbox.address()
        ticks = []
        asyncio.get_running_loop().call_soon(ticks.append, 1)
        while not ticks:
            address.put_nowait(1)
            await inbox.get()
        return inbox.stats().got

    assert asyncio.run(main()) < 1000


def test_waking_reports_those_whose_loop_is_gone():
    async def make():
        return LoopWaker()

    lost, thread = asyncio.run(make()), ThreadWaker()
    assert wake([lost, thread]) == [lost]
    assert thread.sleep(0)


@pytest.mark.parametrize("make", [Mailbox, LoopInbox, ThreadInbox])
def test_settings_that_cannot_work_are_refused(make):
    with pytest.raises(InvalidSetting, match="capacity must be at least 1, got 0"):
        make("box", 0)
    with pytest.raises(InvalidSetting, match="urgent lane"):
        make("box", 1, urgent_capacity=0)
    with pytest.raises(InvalidSetting, match="merge"):
        make("box", 1, overflow=Overflow.COALESCE)
    with pytest.raises(InvalidSetting, match="merge"):
        make("box", 1, merge=max)


def test_a_consumer_whose_loop_was_closed_under_it_breaks_its_senders():
    inbox = LoopInbox[int]("box", 4)
    address = inbox.address()
    loop = asyncio.new_event_loop()
    task = loop.create_task(inbox.get())
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # it is what this test is about
    loop.close()
    with pytest.raises(MailboxBroken, match="consumer is gone"):
        address.put_nowait(1)
    with pytest.raises(MailboxBroken):
        address.put_blocking(2)
    task.get_coro().close()
