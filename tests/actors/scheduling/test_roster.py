"""Each live sequence is in exactly one home."""

import pytest

from legato.actors.scheduling.roster import Roster
from legato.actors.scheduling.sequence import Home, Sequence
from legato.protocol.requests import Admit
from legato.protocol.steps import RowSampling


@pytest.fixture
def roster() -> Roster:
    return Roster(10.0)


def enter(roster: Roster) -> Sequence:
    admit = Admit(0, (1, 2, 3), 5, RowSampling(0.0))
    sequence = Sequence(admit, 0, 0.0, roster.tenants.enter("t"))
    roster.enter(sequence)
    return sequence


@pytest.mark.parametrize(
    ("state", "home"),
    [
        ({}, Home.FRESH),
        ({"started": True}, Home.RESUMING),
        ({"paused": True}, Home.PARKED),
        ({"slot": 0}, Home.PREFILL),
        ({"slot": 0, "opened": True, "planned": 2, "fed": True}, Home.DECODE),
        ({"slot": 0, "paused": True}, Home.HOLDING),
        ({"slot": 0, "left": 0}, Home.FINISHING),
        ({"slot": 0, "left": 0, "paused": True}, Home.FINISHING),
    ],
)
def test_a_home_follows_from_the_sequences_state(roster, state, home):
    sequence = enter(roster)
    roster.take(sequence)
    for name, value in state.items():
        setattr(sequence, name, value)
    roster.place(sequence)
    assert sequence.home is home


def test_unstarted_sequences_are_counted_until_they_start_or_leave(roster):
    sequence = enter(roster)
    assert (roster.num_unstarted, roster.unstarted_tokens) == (1, 3)
    roster.start(sequence)
    roster.start(sequence)
    assert (roster.num_unstarted, roster.unstarted_tokens) == (0, 0)


def test_one_that_leaves_is_nowhere(roster):
    sequence = enter(roster)
    roster.take(sequence)
    roster.leave(sequence)
    assert roster.live == {}
    assert sequence.home is Home.ENDED
    assert (roster.num_unstarted, len(roster.fresh)) == (0, 0)
