"""The lag of a loop, by a clock that the test moves."""

import asyncio

from legato.actors import lag
from legato.actors.lag import LoopLag


def test_a_late_timer_shows_in_the_lag(monkeypatch):
    clock = iter((10.0, 10.0 + 0.001 + 0.5, 20.0))
    monkeypatch.setattr(lag, "PERIOD_S", 0.001)
    monkeypatch.setattr(lag, "perf_counter", lambda: next(clock))
    ticks: list[float] = []

    async def main() -> LoopLag:
        ticked = asyncio.Event()

        def tick(now_s: float) -> None:
            ticks.append(now_s)
            gauge.stop()
            ticked.set()

        gauge = LoopLag(tick)
        gauge.start()
        await ticked.wait()
        return gauge

    gauge = asyncio.run(main())
    assert ticks == [10.501]
    assert round(gauge.last_s, 6) == 0.5
    assert gauge.histogram.read().count == 1


def test_a_listener_that_breaks_is_called_again(monkeypatch, caplog):
    monkeypatch.setattr(lag, "PERIOD_S", 0.001)
    ticks: list[float] = []

    async def main() -> LoopLag:
        ticked = asyncio.Event()

        def tick(now_s: float) -> None:
            ticks.append(now_s)
            if len(ticks) == 1:
                raise ZeroDivisionError
            gauge.stop()
            ticked.set()

        gauge = LoopLag(tick)
        gauge.start()
        await ticked.wait()
        return gauge

    assert asyncio.run(main()).histogram.read().count == 2
    assert "metrics cannot be brought up to date" in caplog.text


def test_stopping_leaves_no_timer():
    async def main() -> None:
        gauge = LoopLag()
        gauge.start()
        gauge.stop()
        gauge.stop()
        assert gauge.histogram.read().count == 0

    asyncio.run(main())
