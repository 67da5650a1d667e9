"""What every kind of mailbox keeps, in every loop."""

import asyncio

import pytest

from legato.mailbox import (
    MailboxBroken,
    MailboxClosed,
    MailboxFull,
    Overflow,
)

pytestmark = pytest.mark.anyio


async def test_messages_arrive_in_the_order_they_were_put(rig):
    async with rig(4) as box:
        for text in "abcd":
            await box.put(text)
        assert [await box.get() for _ in range(4)] == list("abcd")


async def test_drain_takes_everything_at_once_urgent_first(rig):
    async with rig(4) as box:
        await box.put("a")
        await box.put("b")
        await box.put_urgent("u")
        await box.put_urgent("v")
        await box.arrived(4)
        assert await box.drain() == ["u", "v", "a", "b"]


async def test_get_takes_urgent_messages_first(rig):
    async with rig(4) as box:
        await box.put("a")
        await box.put_urgent("u")
        await box.arrived(2)
        assert [await box.get(), await box.get()] == ["u", "a"]


async def test_a_waiting_consumer_is_woken_by_a_message_of_either_lane(rig):
    async with rig(4) as box:
        for put in (box.put, box.put_urgent, box.put_nowait):
            got = asyncio.ensure_future(box.get())
            await asyncio.sleep(0)
            await put("a")
            assert await got == "a"


async def test_put_waits_for_room_and_enters_as_soon_as_there_is(rig):
    async with rig(2) as box:
        await box.put("a")
        await box.put("b")
        waiting = asyncio.ensure_future(box.put("c"))
        await box.queued(1)
        assert not waiting.done()
        assert await box.get() == "a"
        await waiting
        assert [await box.get(), await box.get()] == ["b", "c"]


async def test_waiting_puts_are_served_in_order(rig):
    async with rig(1) as box:
        await box.put("a")
        waiting = []
        for count, text in enumerate("bcde", 1):
            waiting.append(asyncio.ensure_future(box.put(text)))
            await box.queued(count)
        assert [await box.get() for _ in range(5)] == list("abcde")
        await asyncio.gather(*waiting)


async def test_put_nowait_refuses_when_full_and_counts_it(rig):
    async with rig(2) as box:
        await box.put_nowait("a")
        await box.put_nowait("b")
        with pytest.raises(MailboxFull, match="'box' is full"):
            await box.put_nowait("c")
        assert box.address.stats().rejected == 1
        await box.arrived(2)
        assert await box.drain() == ["a", "b"]


async def test_put_nowait_never_passes_a_put_that_waits(rig):
    async with rig(1) as box:
        await box.put("a")
        waiting = asyncio.ensure_future(box.put("b"))
        await box.queued(1)
        assert await box.get() == "a"
        received = []
        while not received:
            try:
                await box.put_nowait("c")
            except MailboxFull:
                received.append(await box.get())
        assert received == ["b"]
        await waiting


async def test_reject_answers_a_put_at_once(rig):
    async with rig(2, Overflow.REJECT) as box:
        await box.put("a")
        await box.put("b")
        with pytest.raises(MailboxFull):
            await box.put("c")
        await box.arrived(2)
        assert await box.drain() == ["a", "b"]
        assert box.address.stats().rejected == 1


async def test_coalesce_merges_the_newest_into_the_last_that_waits(rig):
    async with rig(2, Overflow.COALESCE) as box:
        for text in "abcd":
            await box.put(text)
        await box.put_nowait("e")
        assert [await box.get(), await box.get()] == ["a", "bcde"]
        assert box.address.stats().coalesced == 3


async def test_the_urgent_lane_passes_a_full_mailbox_up_to_its_own_bound(rig):
    async with rig(1, urgent_capacity=2) as box:
        await box.put("a")
        await box.put_urgent("u")
        await box.put_urgent("v")
        with pytest.raises(MailboxFull):
            await box.put_urgent("w")
        await box.arrived(3)
        assert await box.drain() == ["u", "v", "a"]


async def test_urgent_room_comes_back(rig):
    async with rig(1, urgent_capacity=1) as box:
        for text in "abc":
            sent = False
            while not sent:
                try:
                    await box.put_urgent(text)
                    sent = True
                except MailboxFull:  # the room is still on its way back
                    await asyncio.sleep(0)
            assert await box.get() == text


async def test_a_cancelled_put_is_not_delivered_and_frees_the_way(put_cancelling_rig):
    async with put_cancelling_rig(1) as box:
        await box.put("a")
        first = asyncio.ensure_future(box.put("b"))
        await box.queued(1)
        second = asyncio.ensure_future(box.put("c"))
        await box.queued(2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await box.queued(1)
        assert [await box.get(), await box.get()] == ["a", "c"]
        await second


async def test_a_put_cancelled_with_room_granted_delivers_nothing(put_cancelling_rig):
    async with put_cancelling_rig(1) as box:
        await box.put("a")
        await box.arrived(1)
        first = asyncio.ensure_future(box.put("b"))
        await box.queued(1)
        second = asyncio.ensure_future(box.put("c"))
        await box.queued(2)
        got = await box.get()
        first.cancel()
        outcome = (await asyncio.gather(first, return_exceptions=True))[0]
        expected = ["c"] if isinstance(outcome, asyncio.CancelledError) else ["b", "c"]
        assert got == "a"
        assert [await box.get() for _ in expected] == expected
        await second


async def test_a_cancelled_get_takes_nothing(get_cancelling_rig):
    async with get_cancelling_rig(4) as box:
        getting = asyncio.ensure_future(box.get())
        await asyncio.sleep(0)
        getting.cancel()
        await asyncio.gather(getting, return_exceptions=True)
        await box.put("a")
        assert await box.get() == "a"


async def test_a_get_cancelled_with_a_message_there_takes_nothing(get_cancelling_rig):
    async with get_cancelling_rig(4) as box:
        for call in (box.get, box.drain):
            getting = asyncio.ensure_future(call())
            await asyncio.sleep(0)
            await box.put("a")
            getting.cancel()
            (outcome,) = await asyncio.gather(getting, return_exceptions=True)
            if isinstance(outcome, asyncio.CancelledError):
                outcome = await box.get()
            assert "".join(outcome) == "a"


async def test_after_close_what_waits_is_taken_and_then_it_is_closed(rig):
    async with rig(2) as box:
        await box.put("a")
        await box.put("b")
        await box.arrived(2)
        box.inbox.close()
        assert [await box.get(), await box.get()] == ["a", "b"]
        with pytest.raises(MailboxClosed):
            await box.get()


async def test_close_refuses_every_sender(rig):
    async with rig(1) as box:
        await box.put("a")
        waiting = asyncio.ensure_future(box.put("b"))
        await box.queued(1)
        await box.arrived(1)
        box.inbox.close()
        with pytest.raises(MailboxBroken, match="its consumer is gone"):
            await waiting
        for put in (box.put, box.put_nowait, box.put_urgent):
            with pytest.raises(MailboxBroken):
                await put("c")
        assert await box.get() == "a"


async def test_close_wakes_a_waiting_consumer(rig):
    async with rig(1) as box:
        getting = asyncio.ensure_future(box.get())
        await asyncio.sleep(0)
        box.inbox.close()
        with pytest.raises(MailboxClosed):
            await getting


async def test_when_the_senders_close_the_rest_is_delivered_first(rig):
    async with rig(1) as box:
        await box.put("a")
        waiting = asyncio.ensure_future(box.put("b"))
        await box.queued(1)
        await box.close_address()
        for put in (box.put, box.put_nowait, box.put_urgent):
            with pytest.raises(MailboxClosed):
                await put("c")
        assert [await box.get(), await box.get()] == ["a", "b"]
        await waiting
        with pytest.raises(MailboxClosed):
            await box.get()


async def test_the_last_sender_to_close_wakes_a_waiting_consumer(rig):
    async with rig(1) as box:
        getting = asyncio.ensure_future(box.get())
        await asyncio.sleep(0)
        await box.close_address()
        with pytest.raises(MailboxClosed):
            await getting


async def test_stats_account_for_every_message(rig):
    async with rig(3) as box:
        for text in "abc":
            await box.put(text)
        await box.put_urgent("u")
        await box.arrived(4)
        before = box.inbox.stats()
        assert (before.name, before.capacity, before.depth) == ("box", 3, 3)
        assert (before.urgent_depth, before.high_water) == (1, 3)
        assert (before.put, before.got) == (4, 0)
        await box.drain()
        after = box.inbox.stats()
        assert (after.put, after.got, after.depth, after.urgent_depth) == (4, 4, 0, 0)
        assert after.high_water == 3
        assert after.waited_s >= before.waited_s > 0


async def test_many_senders_lose_and_duplicate_nothing(rig):
    async with rig(3) as box:

        async def send(name: str) -> None:
            for number in range(20):
                await box.put(f"{name}{number}")

        async with asyncio.TaskGroup() as group:
            for name in "abcd":
                group.create_task(send(name))
            received: list[str] = []
            while len(received) < 80:
                received += await box.drain()
        for name in "abcd":
            expected = [f"{name}{number}" for number in range(20)]
            assert [text for text in received if text[0] == name] == expected
