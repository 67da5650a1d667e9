"""Turns are granted in order, given up at any moment, and counted once."""

from legato.mailbox.turns import Turns


def test_turns_are_granted_in_order_for_the_room_there_is():
    turns = Turns[str]()
    for turn in "abc":
        turns.join(turn)
    assert turns.grant(2) == ["a", "b"]
    assert turns.grant(2) == []
    turns.enter()
    assert turns.grant(2) == ["c"]
    assert turns.pending == 2


def test_a_turn_given_up_frees_its_place_granted_or_not():
    turns = Turns[str]()
    for turn in "abc":
        turns.join(turn)
    turns.grant(1)
    turns.leave("b")
    assert turns.pending == 2
    turns.leave("a")
    assert turns.grant(1) == ["c"]


def test_clearing_returns_all_that_wait_and_forgets_what_was_granted():
    turns = Turns[str]()
    for turn in "abc":
        turns.join(turn)
    turns.grant(1)
    assert turns.clear() == ["b", "c"]
    assert turns.pending == 0
