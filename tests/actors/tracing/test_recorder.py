"""The core's side of a trace: orders in, parts out."""

from legato.actors.tracing import Recorder, Tracer
from legato.actors.tracing.recorder import PART_EVENTS
from legato.protocol.tracing import StartTrace, StopTrace


def test_it_has_nothing_to_report_while_nobody_asked():
    recorder = Recorder(Tracer())
    assert recorder.take(now=True) is None


def test_a_part_goes_out_with_a_report_or_when_it_is_long():
    tracer = Tracer()
    recorder = Recorder(tracer)
    recorder.obey(StartTrace())
    tracer.count("box", 1.0, 1)
    assert recorder.take(now=False) is None
    part = recorder.take(now=True)
    assert part is not None
    assert len(part.events) == 1
    for number in range(PART_EVENTS):
        tracer.count("box", 1.0, number)
    long = recorder.take(now=False)
    assert long is not None
    assert len(long.events) == PART_EVENTS


def test_stopping_answers_with_the_last_part_even_if_it_is_empty():
    recorder = Recorder(Tracer())
    recorder.obey(StartTrace())
    recorder.obey(StopTrace())
    part = recorder.take(now=False)
    assert part is not None
    assert part.last
    assert recorder.take(now=True) is None
