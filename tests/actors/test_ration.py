"""What is granted, what is withheld, and when the end may be known."""

import pytest

from legato.actors.ration import MAX_CREDIT, Ration
from legato.protocol.requests import Ended, FinishReason, Usage
from legato.protocol.steps import TokenLogprobs


def end(reason: FinishReason, *, end_token: bool = False) -> Ended:
    return Ended(1, reason, Usage(2, 3), end_token=end_token)


class Reader:
    """Gives a ration what comes, and reads what is left of it."""

    def __init__(self, credit: int) -> None:
        self.ration = Ration(credit)
        self.arrived: list[int] = []
        self.logprobs: list[TokenLogprobs] = []

    def come(self, *tokens: int, ended: Ended | None = None):
        self.arrived += tokens
        self.logprobs += [TokenLogprobs(float(token)) for token in tokens]
        count, end = self.ration.share(self.arrived, self.logprobs, len(tokens), ended)
        assert count == len(self.arrived) == len(self.logprobs)
        assert [float(t) for t in self.arrived] == [p.chosen for p in self.logprobs]
        read = list(self.arrived)
        self.arrived.clear()
        self.logprobs.clear()
        return read, end


def test_tokens_beyond_the_credit_wait_in_order():
    reader = Reader(2)
    assert reader.come(1, 2, 3) == ([1, 2], None)
    assert reader.come(4) == ([], None)
    reader.ration.grant(3)
    assert reader.come() == ([3, 4], None)
    assert reader.ration.credit == 1


def test_what_was_not_read_yet_is_not_taken_back():
    ration = Ration(1)
    arrived = [1, 2, 3]
    assert ration.share(arrived, [], 1, None) == (1, None)
    arrived.append(4)
    assert ration.share(arrived, [], 1, None) == (0, None)
    assert (arrived, ration.withheld) == ([1, 2, 3], [4])


def test_the_end_waits_behind_the_tokens():
    reader = Reader(1)
    final = end(FinishReason.LENGTH)
    assert reader.come(1, 2, ended=final) == ([1], None)
    assert reader.ration.final is final
    reader.ration.grant(1)
    assert reader.come() == ([2], final)


def test_an_end_token_costs_nothing():
    reader = Reader(2)
    final = end(FinishReason.STOP, end_token=True)
    assert reader.come(1, 2, 256, ended=final) == ([1, 2, 256], final)
    assert reader.ration.credit == 0


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.ERROR])
def test_whoever_cancels_gets_no_more_text_but_the_end_at_once(reason: FinishReason):
    reader = Reader(0)
    reader.come(1, 2)
    final = end(reason)
    assert reader.come(ended=final) == ([], final)
    assert reader.ration.withheld == []


def test_grants_add_up_to_a_bound():
    ration = Ration(MAX_CREDIT + 5)
    ration.grant(MAX_CREDIT)
    assert ration.credit == MAX_CREDIT
