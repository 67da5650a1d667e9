import pytest

from legato.engine.door import Door
from legato.protocol.errors import EngineClosed, EngineFailed, EngineStalled, Overloaded


def ready(max_requests: int) -> Door:
    door = Door(max_requests, 1000)
    door.state = "ready"
    return door


def test_a_full_house_is_refused_with_a_time_to_come_back():
    door = ready(2)
    door.check(1, 0, 0.0)
    with pytest.raises(Overloaded, match="2 requests are open") as refused:
        door.check(2, 0, 0.0)
    assert refused.value.retry_after_s == 1.0


def test_the_time_to_come_back_follows_the_measured_rate():
    door = ready(1)
    for at_s in (0.0, 5.0, 10.0):
        door.note_end(at_s)
    with pytest.raises(Overloaded) as refused:
        door.check(1, 0, 15.0)
    assert refused.value.retry_after_s == 5.0


@pytest.mark.parametrize("state", ["starting", "draining", "closed"])
def test_only_a_ready_engine_admits(state: str):
    door = Door(1, 1000)
    door.state = state
    with pytest.raises(EngineClosed, match=state):
        door.check(0, 0, 0.0)


def test_a_failed_engine_says_why():
    door = Door(1, 1000)
    door.state, door.failure = "failed", "the device melted"
    with pytest.raises(EngineFailed, match="the device melted"):
        door.check(0, 0, 0.0)


def test_prompts_that_wait_are_bounded_in_tokens_too():
    door = ready(10)
    door.check(3, 999, 0.0)
    with pytest.raises(Overloaded, match="about 1000 tokens wait"):
        door.check(3, 1000, 0.0)


def test_while_the_core_hangs_nobody_is_let_in():
    door = ready(2)
    door.stall("no step has ended")
    with pytest.raises(EngineStalled, match="no step has ended"):
        door.check(0, 0, 0.0)
    door.recover()
    door.check(0, 0, 0.0)
    assert (door.state, door.failure) == ("ready", "")


@pytest.mark.parametrize("state", ["draining", "failed", "closed"])
def test_a_hang_changes_nothing_for_an_engine_that_takes_nobody(state: str):
    door = ready(2)
    door.state, door.failure = state, "before"
    door.stall("no step has ended")
    door.recover()
    assert (door.state, door.failure) == (state, "before")
