"""When waiting requests may start."""

import msgspec
import pytest

from legato.actors.scheduling import Auto, Batching, Continuous, Dynamic, Static
from legato.actors.scheduling.batching import Load, open_gate
from legato.protocol.errors import InvalidSetting


def load(now_s=0.0, waiting=0, oldest_s=None, running=0, rate=0.0) -> Load:
    if waiting and oldest_s is None:
        oldest_s = 0.0
    return Load(now_s, waiting, oldest_s, running, rate)


def test_continuous_batching_never_waits():
    gate = open_gate(Continuous())
    assert gate.room(load(waiting=1, running=99)) >= 1
    assert gate.wake_at(load(waiting=1)) is None


def test_a_dynamic_batch_starts_when_it_is_full():
    gate = open_gate(Dynamic(max_batch=4, max_delay_s=1.0, adaptive=False))
    assert gate.room(load(waiting=3)) == 0
    assert gate.room(load(waiting=5)) == 4


def test_a_dynamic_batch_starts_as_it_is_after_its_delay():
    gate = open_gate(Dynamic(max_batch=4, max_delay_s=1.0, adaptive=False))
    collecting = load(now_s=0.5, waiting=2)
    assert gate.room(collecting) == 0
    assert gate.wake_at(collecting) == 1.0
    assert gate.room(load(now_s=1.0, waiting=2)) == 2


def test_a_batch_waits_for_the_one_that_runs():
    gate = open_gate(Dynamic(max_batch=2, max_delay_s=1.0))
    busy = load(now_s=9.0, waiting=8, running=1)
    assert gate.room(busy) == 0
    assert gate.wake_at(busy) is None


def test_an_open_batch_fills_over_several_steps():
    gate = open_gate(Dynamic(max_batch=3, max_delay_s=1.0))
    assert gate.room(load(waiting=3)) == 3
    gate.start()
    assert gate.room(load(waiting=2, running=1)) == 2
    gate.start()
    gate.start()
    assert gate.room(load(waiting=9, running=3)) == 0


def test_a_preferred_size_starts_before_the_full_one():
    gate = open_gate(
        Dynamic(max_batch=8, max_delay_s=1.0, preferred=(2, 4), adaptive=False)
    )
    assert gate.room(load(waiting=1)) == 0
    assert gate.room(load(waiting=5)) == 4


def test_an_adaptive_delay_is_nothing_when_nobody_else_is_expected():
    gate = open_gate(Dynamic(max_batch=8, max_delay_s=0.1))
    assert gate.room(load(waiting=1, rate=5.0)) == 1


def test_an_adaptive_delay_is_as_long_as_the_batch_takes_to_fill():
    gate = open_gate(Dynamic(max_batch=5, max_delay_s=0.1))
    assert gate.wake_at(load(waiting=1, rate=100.0)) == pytest.approx(0.04)
    assert gate.wake_at(load(waiting=1, rate=20.0)) == pytest.approx(0.1)


def test_a_static_batch_waits_for_its_size_but_not_for_ever():
    gate = open_gate(Static(size=4, max_wait_s=2.0))
    assert gate.reserves
    assert gate.room(load(now_s=1.9, waiting=3)) == 0
    assert gate.wake_at(load(now_s=1.9, waiting=3)) == 2.0
    assert gate.room(load(now_s=2.0, waiting=3)) == 3
    gate = open_gate(Static(size=4))
    assert gate.room(load(waiting=9)) == 4


def test_auto_is_continuous_for_models_that_decode():
    gate = open_gate(Auto())
    assert gate.room(load(waiting=1, running=5, rate=1e6)) >= 1
    assert gate.strategy == "continuous"
    assert "token by token" in gate.reason


def test_auto_batches_one_shot_models_only_under_load():
    gate = open_gate(Auto(one_shot=True, max_batch=4, max_delay_s=0.01))
    assert gate.room(load(waiting=1, rate=3.0)) >= 1
    assert gate.strategy == "continuous"
    assert "3.0 requests/s" in gate.reason
    assert gate.room(load(waiting=1, rate=900.0)) == 0
    assert gate.strategy == "dynamic"
    assert "fills batches" in gate.reason


@pytest.mark.parametrize(
    ("build", "numbers"),
    [
        (lambda: Dynamic(max_batch=0), r"max_batch must be in \[1, 65536\], got 0"),
        (lambda: Dynamic(max_delay_s=-1.0), "max_delay_s must be in"),
        (lambda: Dynamic(max_delay_s=float("nan")), "got nan"),
        (lambda: Dynamic(max_batch=4, preferred=(8,)), r"\[1, 4\], got 8"),
        (lambda: Static(size=0), "size must be in"),
        (lambda: Auto(max_batch=0), "max_batch must be in"),
    ],
)
def test_settings_out_of_range_are_refused_with_the_numbers(build, numbers):
    with pytest.raises(InvalidSetting, match=numbers):
        build()


def test_strategies_travel_as_tagged_messages():
    wire = msgspec.json.encode(Dynamic(max_batch=3))
    assert msgspec.json.decode(wire, type=Batching) == Dynamic(max_batch=3)
