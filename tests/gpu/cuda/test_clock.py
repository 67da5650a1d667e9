import time
from dataclasses import dataclass

import pytest

from legato.gpu.cuda.clock import DeviceClock


@dataclass
class Tick:
    at_s: float

    def wait(self) -> None: ...

    def seconds_after(self, earlier: "Tick") -> float:
        return self.at_s - earlier.at_s


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: at[0])
    return at


def test_steps_lie_where_the_device_saw_them(now: list[float]) -> None:
    clock = DeviceClock(Tick(5.0))
    now[0] = 110.0
    assert clock.place(Tick(6.0), Tick(7.5), 100.5) == (101.0, 102.5)
    assert clock.place(Tick(7.5), Tick(8.0), 101.0) == (102.5, 103.0)


def test_no_step_begins_before_it_was_launched(now: list[float]) -> None:
    clock = DeviceClock(Tick(5.0))
    now[0] = 110.0
    assert clock.place(Tick(6.0), Tick(7.0), 104.0) == (104.0, 105.0)
    # And the next ones are placed from there.
    assert clock.place(Tick(7.5), Tick(8.0), 104.5) == (105.5, 106.0)


def test_no_step_ends_after_it_was_seen_to_end(now: list[float]) -> None:
    clock = DeviceClock(Tick(5.0))
    now[0] = 102.0
    assert clock.place(Tick(8.0), Tick(9.0), 100.0) == (101.0, 102.0)
