"""Sequences that are moved on together."""

from types import SimpleNamespace
from typing import Any

import pytest

from legato.actors.scheduling.decodes import Decodes
from legato.actors.scheduling.ledger import Flight
from legato.actors.scheduling.sequence import Sequence
from legato.actors.scheduling.tenants import Tenants
from legato.protocol.requests import Admit
from legato.protocol.steps import RowSampling


@pytest.fixture
def hall() -> SimpleNamespace:
    """Decodes, and what the composer does with them."""
    decodes = Decodes()

    def add(request: int, *, room: int = 99, left: int = 99, **fields: Any) -> Sequence:
        admit = Admit(request, (1, 2, 3), left, RowSampling(0.0), **fields)
        sequence = Sequence(admit, request, 0.0, Tenants().enter(""))
        sequence.slot, sequence.planned, sequence.length = request, 3, 4
        sequence.room = room
        decodes.add(sequence)
        return sequence

    def play(room: int = 99) -> tuple[int, ...]:
        out = decodes.hold_back(room)
        for sequence in decodes.take_due():
            decodes.file(sequence)
        flight = Flight(0, room)
        hall.flights.append(flight)
        return decodes.begin(flight, out).slots

    hall = SimpleNamespace(decodes=decodes, add=add, play=play, flights=[])
    return hall


def test_a_member_that_leaves_has_the_marks_of_every_round(hall):
    sequence = hall.add(0)
    for _ in range(5):
        assert hall.play() == (0,)
    assert (sequence.planned, sequence.length) == (3, 4)
    hall.decodes.remove(sequence)
    assert (sequence.planned, sequence.length) == (8, 9)
    assert (sequence.room, sequence.left) == (94, 94)
    assert sequence.flight is hall.flights[-1]
    assert hall.play() == ()


def test_who_was_in_no_round_keeps_its_flight(hall):
    sequence = hall.add(0)
    hall.decodes.remove(sequence)
    assert (sequence.planned, sequence.flight) == (3, None)


def test_the_cast_is_the_same_object_while_nobody_comes_or_goes(hall):
    hall.add(0)
    first = hall.decodes.begin(Flight(0, 9), set())
    assert hall.decodes.begin(Flight(1, 9), set()) is first
    hall.add(1)
    assert hall.decodes.begin(Flight(2, 9), set()) is not first


def test_whoever_leaves_changes_nothing_for_the_others(hall):
    members = [hall.add(request) for request in range(5)]
    hall.play()
    hall.decodes.remove(members[1])
    hall.decodes.remove(members[4])
    cast = hall.decodes.begin(Flight(0, 9), set())
    assert sorted(cast.slots) == [0, 2, 3]
    assert cast.requests == cast.slots
    for request, text in zip(cast.requests, cast.texts, strict=True):
        text.append(request + 50)
    assert [members[n].tokens[-1] for n in (0, 2, 3)] == [50, 52, 53]
    hall.decodes.bring_all()
    assert [members[n].planned for n in range(5)] == [5, 4, 5, 5, 4]


def test_a_member_is_due_when_its_page_is_full(hall):
    hall.add(0, room=2)
    hall.add(1, room=0)
    assert [one.request for one in hall.decodes.take_due()] == [1]
    hall.decodes.begin(Flight(0, 9), set())
    assert list(hall.decodes.take_due()) == []
    hall.decodes.begin(Flight(1, 9), set())
    (due,) = hall.decodes.take_due()
    assert (due.request, due.room) == (0, 0)


def test_a_member_is_due_in_its_last_round(hall):
    hall.add(0, left=2)
    hall.play()
    (due,) = hall.decodes.take_due()
    assert due.left == 1


def test_who_left_and_came_back_is_due_once(hall):
    sequence = hall.add(0, room=1)
    hall.decodes.remove(sequence)
    hall.decodes.add(sequence)
    hall.play()
    assert list(hall.decodes.take_due()) == [sequence]


def test_a_skipped_member_does_not_move(hall):
    skipped, other = hall.add(0, room=0), hall.add(1)
    hall.play()
    hall.decodes.skip(skipped)
    flight = Flight(7, 9)
    assert hall.decodes.begin(flight, {skipped}).slots == (1,)
    hall.decodes.bring_all()
    assert (skipped.planned, other.planned) == (4, 5)
    assert skipped.flight is hall.flights[0]
    assert other.flight is flight


@pytest.mark.parametrize("room", [1, 2, 3, 6])
def test_each_takes_part_once_in_so_many_rounds_as_all_need(hall, room: int):
    members = [hall.add(request) for request in range(7)]
    bound = -(-7 // room)
    last = dict.fromkeys(range(7), -1)
    for number in range(40):
        cast = hall.play(room)
        assert len(cast) == room
        for request in cast:
            assert number - last[request] <= bound
            last[request] = number
        if number == 20:
            # One that comes in place of another waits no longer than the others.
            hall.decodes.remove(members[0])
            members[0] = hall.add(0)
            last[0] = number
    assert min(last.values()) >= 40 - bound


def test_ends_are_those_of_the_members(hall):
    first = hall.add(0, stop_token_ids=(5,))
    hall.add(1, stop_token_ids=(5,))
    hall.add(2, stop_token_ids=(6, 7))
    assert hall.decodes.begin(Flight(0, 9), set()).ends == {5, 6, 7}
    hall.decodes.remove(first)
    assert hall.decodes.begin(Flight(1, 9), set()).ends == {5, 6, 7}
    hall.decodes.remove(hall.decodes._members[0])
    hall.decodes.remove(hall.decodes._members[0])
    assert hall.decodes.begin(Flight(2, 9), set()).ends == frozenset()
