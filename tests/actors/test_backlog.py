from legato.actors.backlog import Backlog, Wait, estimate
from legato.protocol.requests import ChatMessage


def test_ids_are_counted_and_text_is_estimated():
    assert estimate((1, 2, 3)) == 3
    assert estimate("x" * 400) == 101
    assert estimate((ChatMessage("user", "x" * 40), ChatMessage("user", ""))) == 12


def test_a_wait_counts_from_its_opening_to_its_one_end():
    backlog = Backlog()
    first, second = Wait(backlog, (1, 2)), Wait(backlog, (3,))
    assert backlog.tokens == 3
    first.end()
    first.end()
    assert backlog.tokens == 1
    second.end()
    assert backlog.tokens == 0
