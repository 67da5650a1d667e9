"""Which line is next: priority, deficit, and the bound on being passed."""

from hypothesis import given, settings, strategies

from legato.actors.scheduling.sequence import Sequence
from legato.actors.scheduling.tenants import Tenants
from legato.actors.scheduling.waiting import WaitingRoom
from legato.protocol.requests import Admit
from legato.protocol.steps import RowSampling

PATIENCE_S = 5.0


class Hall:
    """A waiting room with its tenants."""

    def __init__(self) -> None:
        self.tenants = Tenants()
        self.room = WaitingRoom(self.tenants, PATIENCE_S)
        self.next_order = 0

    def add(self, queued_s: float = 0.0, size: int = 8, **fields) -> Sequence:
        admit = Admit(self.next_order, (0,) * size, 1, RowSampling(0.0), **fields)
        share = self.tenants.enter(admit.tenant)
        sequence = Sequence(admit, self.next_order, queued_s, share)
        self.next_order += 1
        self.room.add(sequence)
        return sequence

    def take(self, now_s: float) -> Sequence:
        found = self.room.peek(now_s)
        assert found is not None
        _, sequence = found
        self.room.remove(sequence)
        self.tenants.serve(sequence.share, len(sequence.tokens))
        return sequence


def test_nobody_is_next_in_an_empty_room():
    hall = Hall()
    assert hall.room.peek(0.0) is None
    assert hall.room.oldest_s is None
    hall.room.remove(hall.add())
    assert hall.room.peek(0.0) is None


def test_a_better_priority_goes_first():
    hall = Hall()
    later = hall.add(priority=1)
    sooner = hall.add(priority=-1)
    assert [hall.take(1.0), hall.take(1.0)] == [sooner, later]


def test_each_patience_is_worth_one_priority():
    hall = Hall()
    old = hall.add(0.0, priority=2)
    hall.add(2 * PATIENCE_S - 0.1, priority=0)
    assert hall.room.peek(2 * PATIENCE_S - 0.1)[1] is not old
    assert hall.room.peek(2 * PATIENCE_S)[1] is old


def test_waiting_raises_nobody_above_the_best_that_waits():
    hall = Hall()
    flood = [hall.add(0.0, tenant="flood") for _ in range(5)]
    hall.take(8 * PATIENCE_S)
    quiet = hall.add(8 * PATIENCE_S, tenant="quiet")
    assert hall.room.peek(8 * PATIENCE_S)[1] is quiet
    assert len(flood) == 5


def test_the_tenant_with_the_largest_deficit_goes_first():
    hall = Hall()
    for _ in range(4):
        hall.add(size=100, tenant="large")
        hall.add(size=50, tenant="small")
        hall.add(size=50, tenant="small")
    order = [hall.take(1.0).share.tenant for _ in range(9)]
    assert order.count("large") == 3
    assert order.count("small") == 6


def test_idling_earns_no_claim_on_the_past():
    hall = Hall()
    for _ in range(20):
        hall.add(size=100, tenant="busy")
    for _ in range(10):
        hall.take(1.0)
    for _ in range(5):
        hall.add(size=100, tenant="late")
    tenants = [hall.take(1.0).share.tenant for _ in range(6)]
    assert tenants.count("late") == 3


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    work=strategies.lists(
        strategies.tuples(
            strategies.floats(0, 3),
            strategies.integers(1, 999),
            strategies.integers(0, 3),
        ),
        min_size=1,
        max_size=40,
    ),
    service_s=strategies.floats(0.01, 3),
)
def test_priority_delays_but_never_starves(work, service_s):
    hall = Hall()
    now_s = arrives_s = 0.0
    coming: list[tuple[float, int, int]] = []
    for gap_s, size, priority in work:
        arrives_s += gap_s
        coming.append((arrives_s, size, priority))
    waiting: set[Sequence] = set()
    while coming or waiting:
        while coming and (coming[0][0] <= now_s or not waiting):
            queued_s, size, priority = coming.pop(0)
            now_s = max(now_s, queued_s)
            waiting.add(hall.add(queued_s, size, priority=priority))
        picked = hall.take(now_s)
        waiting.remove(picked)
        for passed in waiting:
            classes = max(passed.priority - picked.priority, 0) + 2
            assert picked.queued_s - passed.queued_s <= classes * PATIENCE_S
        now_s += service_s
