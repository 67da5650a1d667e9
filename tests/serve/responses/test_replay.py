"""Logs of events: what is kept, who waits for whom, and what comes back."""

import asyncio

import msgspec
import pytest

from legato.protocol.openai.extensions import note
from legato.protocol.openai.refusal import Refusal
from legato.protocol.openai.response_frames import DeltaShape
from legato.serve.responses.replay import (
    AT_ONCE,
    ENTRY_BYTES,
    MAX_LAG,
    Allowance,
    EventLog,
)

pytestmark = pytest.mark.anyio
SHAPE = DeltaShape('{"type":"delta","delta":', ',"sequence_number":')


def new_log(max_bytes=100_000, allowance=None):
    return EventLog(SHAPE, max_bytes, allowance or Allowance(10**9))


def delta(number, text='é"\\'):
    return SHAPE.frame(msgspec.json.encode(text).decode(), number)


def other(number):
    return f'{{"type":"other","sequence_number":{number}}}'


async def read_all(reader):
    frames = []
    while some := await reader.next():
        frames += some
    return frames


async def test_events_come_back_byte_for_byte_from_any_number():
    log = new_log()
    frames = [other(0), *(delta(n) for n in range(1, 9)), other(9)]
    await log.put(frames[:4])
    await log.put(frames[4:])
    log.close()
    for after in range(-1, 10):
        assert await read_all(log.read(after)) == frames[after + 1 :]


async def test_deltas_take_little():
    allowance = Allowance(10**9)
    log = new_log(allowance=allowance)
    await log.put([delta(n, "word") for n in range(100)])
    assert allowance.used_bytes == 100 * (len('"word"') + ENTRY_BYTES)
    log.forget()
    assert allowance.used_bytes == 0


async def test_a_reader_hears_of_what_comes_later():
    log = new_log()
    reader = log.read(-1)
    reading = asyncio.ensure_future(read_all(reader))
    await asyncio.sleep(0)
    await log.put([other(0)])
    await asyncio.sleep(0)
    await log.put([other(1)])
    log.close()
    assert await reading == [other(0), other(1)]


async def test_the_oldest_go_where_there_is_too_much_and_who_wants_them_is_told():
    log = new_log(max_bytes=10 * (ENTRY_BYTES + 40))
    await log.put([other(n) for n in range(50)])
    with pytest.raises(Refusal) as caught:
        log.read(-1)
    assert (caught.value.status, caught.value.code) == (410, "replay_unavailable")
    late = log.read(48)
    log.close()
    assert await read_all(late) == [other(49)]


async def test_all_logs_together_are_bounded():
    allowance = Allowance(20 * (ENTRY_BYTES + 40))
    logs = [new_log(allowance=allowance) for _ in range(5)]
    for number in range(50):
        for log in logs:
            await log.put([other(number)])
            assert allowance.used_bytes <= allowance.max_bytes


async def test_an_event_that_was_never_sent_cannot_be_the_last_one_seen():
    log = new_log()
    await log.put([other(0)])
    with pytest.raises(Refusal) as caught:
        log.read(1)
    assert caught.value.param == "starting_after"


async def test_the_answer_waits_for_a_reader_that_must_keep_up():
    log = new_log()
    reader = log.read(-1, holds=True)
    await log.put([other(n) for n in range(MAX_LAG)])
    assert log.send_now([other(MAX_LAG)]) == (other(MAX_LAG),)
    putting = asyncio.ensure_future(log.put([other(MAX_LAG)]))
    await asyncio.sleep(0)
    assert not putting.done()
    assert await reader.next() == [other(n) for n in range(AT_ONCE)]
    await putting
    log.close()
    rest = await read_all(reader)
    assert rest == [other(n) for n in range(AT_ONCE, MAX_LAG + 1)]


async def test_the_answer_does_not_wait_for_one_who_left_or_only_looks():
    log = new_log()
    looker = log.read(-1)
    follower = log.read(-1, holds=True)
    await log.put([other(n) for n in range(MAX_LAG)])
    putting = asyncio.ensure_future(log.put([other(MAX_LAG)]))
    await asyncio.sleep(0)
    follower.close()
    await putting
    assert await follower.next() == []
    log.close()
    assert len(await read_all(looker)) == MAX_LAG + 1


async def test_a_note_is_heard_by_who_reads_now_and_kept_for_nobody():
    log = new_log()
    reader = log.read(-1)
    said = note("response.paused")
    await log.put([other(0), said])
    log.close()
    assert await read_all(reader) == [other(0), said]
    assert await read_all(log.read(-1)) == [other(0)]


async def test_a_log_survives_being_stored():
    log = new_log()
    frames = [other(0), delta(1), other(2)]
    await log.put(frames)
    again = EventLog.restored(log.snapshot())
    assert await read_all(again.read(0)) == frames[1:]
