"""A connection's bytes on their way to the parser; the loop is turned by hand."""

import pytest

from legato.serve import portions
from legato.serve.portions import PORTION_BYTES, Portions


class Turns:
    """A loop and a transport."""

    def __init__(self):
        self.waiting = []
        self.reading = True
        self.closing = False

    def call_soon(self, call):
        self.waiting.append(call)
        return self

    def cancel(self):
        self.waiting.clear()

    def turn(self):
        calls, self.waiting = self.waiting, []
        for call in calls:
            call()
        return bool(calls)

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.closing

    def abort(self):
        self.closing = True


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(portions, "TURN_S", 0.0)
    return Turns()


def test_much_at_once_is_parsed_over_several_turns_in_order(turns):
    parsed = []

    def parse(data):
        parsed.append(data)
        return True

    sent = bytes(range(256)) * (PORTION_BYTES // 64)
    taken = Portions(turns, turns, parse, turns.resume_reading)
    taken.take(sent)
    assert len(parsed) == 1
    assert not turns.reading
    taken.take(b"more")  # on its way already when reading was paused
    while turns.turn():
        assert turns.reading == (not taken.waiting)
    assert b"".join(parsed) == sent + b"more"
    assert max(map(len, parsed)) == PORTION_BYTES
    assert turns.reading


def test_a_parser_that_has_enough_is_asked_again_when_it_says_so(turns):
    parsed = []
    taken = Portions(turns, turns, parsed.append, turns.resume_reading)
    taken.take(b"a")
    assert turns.reading
    taken.take(b"b")
    assert not turns.turn()
    assert parsed == [b"a"]
    assert not turns.reading
    taken.go_on()
    assert turns.turn()
    assert parsed == [b"a", b"b"]
    assert turns.reading


@pytest.mark.parametrize("closing", [True, False])
def test_what_is_dropped_is_never_parsed(turns, closing):
    parsed = []
    taken = Portions(turns, turns, parsed.append, turns.resume_reading)
    taken.take(b"a")
    taken.take(b"bc")
    turns.closing = closing
    assert taken.drop() == 2
    taken.go_on()
    assert not turns.turn()
    assert parsed == [b"a"]
    assert turns.reading is not closing


def test_a_parser_that_breaks_ends_the_connection(turns):
    def parse(data):
        return parsed.append(data) or 1 // (2 - len(parsed))

    parsed = []
    taken = Portions(turns, turns, parse, turns.resume_reading)
    taken.take(b"a" * (PORTION_BYTES + 1))
    with pytest.raises(ZeroDivisionError):
        turns.turn()
    assert turns.closing
