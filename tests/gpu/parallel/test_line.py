import socket
import threading

import msgspec
import pytest

from legato.gpu.parallel.line import Line
from legato.gpu.parallel.words import PLANS, without_sampling
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepRow

WIDE = StepPlan(7, (StepRow(0, 0, tuple(range(100_000)), True),))


def ends() -> tuple[Line, Line]:
    ours, theirs = socket.socketpair()
    return Line(ours), Line(theirs)


def test_messages_of_any_size_come_whole_and_in_order() -> None:
    here, there = ends()
    small = StepPlan(8, (), decodes=(3, 1))
    sending = threading.Thread(target=lambda: [here.send(p) for p in (WIDE, small)])
    sending.start()
    assert [there.receive(PLANS) for _ in range(2)] == [WIDE, small]
    sending.join()
    here.close()
    there.close()


@pytest.mark.parametrize("hangs_up", ["this end", "the other end"])
def test_whoever_waits_hears_that_it_is_over(hangs_up: str) -> None:
    here, there = ends()
    (here if hangs_up == "this end" else there).hang_up()
    with pytest.raises(EOFError):
        here.receive(PLANS)
    with pytest.raises(OSError, match="Broken pipe"):
        here.send(WIDE)
    here.hang_up()
    here.close()
    there.close()


def test_a_message_of_another_kind_is_refused() -> None:
    here, there = ends()
    here.send("what?")
    with pytest.raises(msgspec.ValidationError):
        there.receive(PLANS)
    here.close()
    there.close()


def test_ranks_that_do_not_sample_are_told_nothing_of_it() -> None:
    hot = RowSampling(1.0, presence_penalty=1.0, seed=3)
    opened = SlotOpen(2, hot, 4, (5, 6), (1, 2, 3, 4))
    plan = StepPlan(1, (StepRow(2, 0, (1, 2, 3, 4), True),), (opened,))
    told = without_sampling(plan)
    assert told.rows == plan.rows
    assert told.opens == (SlotOpen(2, RowSampling(0.0), 4, (5, 6)),)
    assert without_sampling(WIDE) is WIDE
