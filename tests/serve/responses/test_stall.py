"""The watch that costs nothing while nothing stalls."""

import asyncio

import pytest

from legato.serve.responses.stall import StallWatch

pytestmark = pytest.mark.anyio


async def test_what_does_not_end_calls_back_once():
    stalled = asyncio.Event()
    watch = StallWatch(0.005, stalled.set)
    watch.begin()
    await stalled.wait()
    assert watch._timer is None


async def test_what_ends_and_begins_again_has_its_time_anew():
    calls = []
    watch = StallWatch(10.0, lambda: calls.append("stalled"))
    now_s = asyncio.get_running_loop().time()
    watch._loop = Clock(now_s)
    watch.begin()
    watch._loop.now_s += 6
    watch.end()
    watch.begin()
    watch._loop.now_s += 6
    watch._loop.fire()
    assert calls == []
    watch._loop.now_s += 4
    watch._loop.fire()
    assert calls == ["stalled"]


async def test_an_idle_watch_holds_no_timer():
    watch = StallWatch(10.0, lambda: None)
    watch._loop = Clock(0.0)
    watch.begin()
    watch.end()
    watch._loop.now_s = 10.0
    watch._loop.fire()
    assert watch._loop.timers == []
    watch.begin()
    assert len(watch._loop.timers) == 1
    watch.close()
    watch.close()


class Clock:
    """A loop whose time is set by hand."""

    def __init__(self, now_s):
        self.now_s = now_s
        self.timers = []

    def time(self):
        return self.now_s

    def call_later(self, delay_s, callback):
        return self.call_at(self.now_s + delay_s, callback)

    def call_at(self, _at_s, callback):
        self.timers.append(callback)
        return asyncio.TimerHandle(0, lambda: None, (), asyncio.get_running_loop())

    def fire(self):
        timers, self.timers = self.timers, []
        for callback in timers:
            callback()
