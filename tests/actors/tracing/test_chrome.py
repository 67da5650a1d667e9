"""The drawing of a trace, read back as whoever opens it would."""

from typing import Any

import msgspec

from legato.actors.tracing import draw
from legato.protocol.tracing import TraceCount, TraceEvent, TraceSpan

Json = dict[str, Any]


def drawn(*events: TraceEvent) -> list[Json]:
    trace = msgspec.json.decode(draw(events, {"model": "fake"}))
    assert trace["otherData"] == {"model": "fake"}
    return trace["traceEvents"]


def of(events: list[Json], phase: str) -> list[Json]:
    return [event for event in events if event["ph"] == phase]


def thread_names(events: list[Json]) -> dict[int, str]:
    named = [e for e in of(events, "M") if e["name"] == "thread_name"]
    return {event["tid"]: event["args"]["name"] for event in named}


def test_a_span_is_drawn_in_microseconds_from_the_first_event():
    events = drawn(
        TraceCount("detokenizer", 10.0, 3),
        TraceSpan("device", "step", 10.001, 10.006, 64),
    )
    (span,) = of(events, "X")
    assert (span["ts"], span["dur"], span["args"]) == (1000.0, 5000.0, {"count": 64})
    assert thread_names(events)[span["tid"]] == "device"
    (count,) = of(events, "C")
    assert count["name"] == "mailbox detokenizer"
    assert (count["ts"], count["args"]) == (0.0, {"depth": 3})


def test_front_end_and_core_are_drawn_apart():
    events = drawn(
        TraceSpan("tokenizer", "encode", 1.0, 2.0),
        TraceSpan("scheduler", "plan", 2.0, 3.0),
    )
    front, core = of(events, "X")
    names = {
        event["pid"]: event["args"]["name"]
        for event in of(events, "M")
        if event["name"] == "process_name"
    }
    assert names[front["pid"]] == "legato front end"
    assert names[core["pid"]] == "legato engine core"


def test_nested_spans_share_a_thread_and_overlapping_ones_do_not():
    events = drawn(
        TraceSpan("tokenizer", "encode", 1.0, 4.0),
        TraceSpan("tokenizer", "inner", 2.0, 3.0),
        TraceSpan("tokenizer", "encode", 3.5, 5.0),
        TraceSpan("tokenizer", "encode", 5.0, 6.0),
    )
    first, inner, beside, after = (event["tid"] for event in of(events, "X"))
    assert first == inner == after != beside
    assert thread_names(events)[beside] == "tokenizer 2"


def test_a_flow_follows_a_request_through_its_spans_in_the_order_of_time():
    events = drawn(
        TraceSpan("streams", "last delta", 9.0, 9.1, requests=(7,)),
        TraceSpan("tokenizer", "encode", 1.0, 2.0, requests=(7,)),
        TraceSpan("device", "step", 4.0, 5.0, requests=(7, 8)),
    )
    flow = [event for event in events if event.get("id") == 7]
    assert [event["ph"] for event in flow] == ["s", "t", "f"]
    names = thread_names(events)
    assert [names[e["tid"]] for e in flow] == ["tokenizer", "device", "streams"]
    assert flow[-1]["bp"] == "e"


def test_every_point_of_a_flow_lies_in_a_span():
    events = drawn(
        TraceSpan("tokenizer", "encode", 1.0, 2.0, requests=(7,)),
        TraceSpan("tokenizer", "encode", 1.5, 2.5, requests=(8,)),
        TraceSpan("device", "step", 4.0, 5.0, requests=(7, 8)),
    )
    for point in [event for event in events if "id" in event]:
        assert any(
            span["pid"] == point["pid"]
            and span["tid"] == point["tid"]
            and span["ts"] <= point["ts"] <= span["ts"] + span["dur"]
            for span in of(events, "X")
        )


def test_a_request_seen_once_has_no_flow():
    assert not of(drawn(TraceSpan("device", "step", 4.0, 5.0, requests=(7,))), "s")


def test_nothing_recorded_draws_an_empty_trace():
    assert {event["ph"] for event in drawn()} == {"M"}
