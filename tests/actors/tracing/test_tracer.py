"""The ring: bounded, off by default, and exact about what it lost."""

from legato.actors.tracing.tracer import (
    REQUESTS_A_SAMPLE,
    STEPS_A_SAMPLE,
    Tracer,
    sample,
)
from legato.protocol.tracing import TraceCount, TraceSpan


def test_it_is_off_until_started():
    tracer = Tracer()
    assert not tracer.on
    tracer.start()
    assert tracer.on
    tracer.stop()
    assert not tracer.on


def test_it_returns_events_once_in_the_order_of_recording():
    tracer = Tracer()
    tracer.start()
    tracer.span("device", "step", 1.0, 2.0, 3, (4,))
    tracer.count("executor", 2.0, 1)
    part = tracer.take()
    assert part.events == (
        TraceSpan("device", "step", 1.0, 2.0, 3, (4,)),
        TraceCount("executor", 2.0, 1),
    )
    assert not part.last
    last = tracer.stop()
    assert (last.events, last.dropped, last.last) == ((), 0, True)


def test_a_full_ring_drops_the_oldest_and_counts_them():
    tracer = Tracer(max_events=3)
    tracer.start()
    for number in range(5):
        tracer.count("box", number, number)
    assert len(tracer) == 3
    part = tracer.take()
    assert [event.value for event in part.events if isinstance(event, TraceCount)] == [
        2,
        3,
        4,
    ]
    assert part.dropped == 2
    tracer.count("box", 9, 9)
    assert tracer.take().dropped == 0


def test_starting_again_forgets_what_nobody_took():
    tracer = Tracer()
    tracer.start()
    tracer.count("box", 1, 1)
    tracer.start()
    part = tracer.stop()
    assert part.events == ()
    assert part.dropped == 0


def test_parts_join_into_one():
    tracer = Tracer(max_events=1)
    tracer.start()
    tracer.count("box", 1, 1)
    tracer.count("box", 2, 2)
    first = tracer.take()
    tracer.count("box", 3, 3)
    joined = first.merge(tracer.stop())
    assert [event.at_s for event in joined.events if isinstance(event, TraceCount)] == [
        2,
        3,
    ]
    assert joined.dropped == 1
    assert joined.last


def test_a_sample_holds_few_requests_of_few_steps_and_always_the_same():
    requests = range(1000)
    first = sample(0, requests)
    assert 0 < len(first) <= REQUESTS_A_SAMPLE
    assert sample(STEPS_A_SAMPLE, requests) == first
    assert sample(1, requests) == ()


def test_a_sample_of_few_streams_holds_them_all():
    assert sample(0, (5, 9)) == (5, 9)
    assert sample(0, []) == ()
