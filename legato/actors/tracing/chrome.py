"""Drawing a trace in the Trace Event format, which Perfetto and Chrome open.

One thread of the drawing for each track, one counter for each mailbox, and a flow for
each request through the spans that name it. Spans of one track that overlap without
one holding the other get threads of their own beside it. The format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...protocol.tracing import TraceCount, TraceEvent, TraceSpan

Json = dict[str, Any]

FRONT, CORE = 1, 2
PROCESSES = {FRONT: "front end", CORE: "engine core"}

# In the order of a request's way.
TRACKS = {
    "engine": FRONT,
    "tokenizer": FRONT,
    "scheduler": CORE,
    "device": CORE,
    "detokenizer": FRONT,
    "streams": FRONT,
}
FLOW = "request"


def draw(events: Iterable[TraceEvent], about: Mapping[str, Any]) -> bytes:
    """Write a trace as JSON.

    Args:
        events: In any order.
        about: Beside the trace, for whoever reads it later.
    """
    spans: list[TraceSpan] = []
    counts: list[TraceCount] = []
    for event in events:
        if isinstance(event, TraceSpan):
            spans.append(event)
        else:
            counts.append(event)
    times = [span.began_s for span in spans] + [count.at_s for count in counts]
    drawing = Drawing(min(times, default=0.0))
    drawing.add_spans(sorted(spans, key=lambda span: (span.began_s, -span.ended_s)))
    drawing.add_counts(counts)
    trace = {
        "displayTimeUnit": "ms",
        "otherData": dict(about),
        "traceEvents": [*drawing.names(), *drawing.events],
    }
    return msgspec.json.encode(trace)


class Drawing:
    """The events of a drawing.

    Args:
        zero_s: The clock at its left edge.
    """

    def __init__(self, zero_s: float) -> None:
        self.events: list[Json] = []
        self._zero_s = zero_s
        self._lanes: dict[str, list[list[float]]] = {}
        self._thread_ids: dict[tuple[str, int], int] = {}
        self._flows: dict[int, list[Json]] = {}

    def add_spans(self, spans: Sequence[TraceSpan]) -> None:
        """Draw spans, ordered by their beginning, and the flows through them."""
        for span in spans:
            place = self._place(span)
            self.events.append(
                {
                    "ph": "X",
                    "name": span.name,
                    "cat": span.track,
                    "dur": micros(span.ended_s - span.began_s),
                    "args": arguments(span),
                    **place,
                }
            )
            for request in span.requests:
                self._flows.setdefault(request, []).append(place)
        for request, places in self._flows.items():
            self._add_flow(request, places)

    def add_counts(self, counts: Iterable[TraceCount]) -> None:
        """Draw the figures of mailboxes."""
        for count in counts:
            self.events.append(
                {
                    "ph": "C",
                    "name": f"mailbox {count.track}",
                    "pid": process_of(count.track),
                    "ts": self._ts(count.at_s),
                    "args": {"depth": count.value},
                }
            )

    def names(self) -> list[Json]:
        """The events that name what was drawn so far."""
        named: list[Json] = [
            name_event("process_name", process, 0, {"name": f"legato {what}"})
            for process, what in PROCESSES.items()
        ]
        order = list(TRACKS)
        for (track, lane), thread in self._thread_ids.items():
            process = process_of(track)
            title = f"{track} {lane + 1}" if lane else track
            rank = order.index(track) if track in order else len(order)
            named.append(name_event("thread_name", process, thread, {"name": title}))
            sort = {"sort_index": 100 * rank + lane}
            named.append(name_event("thread_sort_index", process, thread, sort))
        return named

    def _place(self, span: TraceSpan) -> Json:
        """Find a thread where the span begins inside another, or beside all."""
        lanes = self._lanes.setdefault(span.track, [])
        for lane in lanes:
            while lane and lane[-1] <= span.began_s:
                lane.pop()
        fitting = (
            number
            for number, lane in enumerate(lanes)
            if not lane or span.ended_s <= lane[-1]
        )
        number = next(fitting, len(lanes))
        if number == len(lanes):
            lanes.append([])
        lanes[number].append(span.ended_s)
        key = span.track, number
        thread = self._thread_ids.setdefault(key, len(self._thread_ids) + 1)
        ts = self._ts(span.began_s)
        return {"pid": process_of(span.track), "tid": thread, "ts": ts}

    def _add_flow(self, request: int, places: Sequence[Json]) -> None:
        last = len(places) - 1
        if last < 1:
            return  # a flow of one step leads nowhere
        for index, place in enumerate(places):
            event: Json = {"name": FLOW, "cat": FLOW, "id": request, **place}
            event["ph"] = "s" if not index else "f" if index == last else "t"
            if index == last:
                event["bp"] = "e"
            self.events.append(event)

    def _ts(self, at_s: float) -> float:
        return micros(at_s - self._zero_s)


def name_event(kind: str, process: int, thread: int, args: Json) -> Json:
    """An event that names a process or a thread."""
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def process_of(track: str) -> int:
    """Which of the two processes drawn a track belongs to."""
    return TRACKS.get(track, FRONT)


def arguments(span: TraceSpan) -> Json:
    """What a click on a span tells."""
    args: Json = {}
    if span.count:
        args["count"] = span.count
    if span.requests:
        args["requests"] = span.requests
    return args


def micros(duration_s: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(duration_s * 1e6, 3)
