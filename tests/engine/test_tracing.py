"""Traces of a whole engine, in both placements, read back as a viewer would."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from legato import (
    Engine,
    EngineClosed,
    EngineFailed,
    FakeModel,
    InvalidRequest,
    Overloaded,
    SamplingParams,
)
from legato.actors.orders import OrderLine
from legato.actors.tracing import Tracer
from legato.engine.tracing import Tracing
from legato.mailbox import Mailbox
from legato.protocol.errors import Failure
from legato.protocol.tracing import StartTrace, StopTrace, TracePart

Play = Callable[..., None]
Json = dict[str, Any]

GREEDY = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)


def tracks(events: list[Json]) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }


@pytest.mark.slow
def test_a_trace_follows_a_request_from_the_door_to_its_last_delta(play_placed: Play):
    async def body(engine: Engine) -> None:
        recording = asyncio.create_task(engine.trace(1))
        await asyncio.sleep(0)
        answer = await engine.generate("hello", GREEDY)
        trace = msgspec.json.decode(await recording)
        assert trace["otherData"]["model"] == "fake"
        assert trace["otherData"]["dropped_events"] == 0
        events = trace["traceEvents"]
        names = tracks(events)
        assert set(names.values()) >= {
            "engine",
            "tokenizer",
            "scheduler",
            "device",
            "detokenizer",
            "streams",
        }
        flow = [event for event in events if event.get("cat") == "request"]
        way = [names[event["pid"], event["tid"]] for event in flow]
        assert way[:3] == ["engine", "tokenizer", "scheduler"]
        assert way[-1] == "streams"
        assert "device" in way
        assert (flow[0]["ph"], flow[-1]["ph"]) == ("s", "f")
        steps = [e for e in events if e["ph"] == "X" and e["cat"] == "device"]
        assert sum(step["args"].get("count", 0) for step in steps) == len(
            answer.token_ids
        )
        counters = {event["name"] for event in events if event["ph"] == "C"}
        assert counters >= {f"mailbox {name}" for name in ("scheduler", "executor")}
        assert "mailbox detokenizer" in counters

    play_placed(body)


@pytest.mark.slow
def test_an_idle_engine_answers_with_a_trace_too(play_placed: Play):
    async def body(engine: Engine) -> None:
        trace = msgspec.json.decode(await engine.trace(0.01))
        assert [event for event in trace["traceEvents"] if event["ph"] == "M"]

    play_placed(body)


def test_an_engine_that_is_over_records_nothing(aftermath: Any):
    async def main() -> None:
        async with Engine(FakeModel()) as engine:
            engine._life._fail(Failure("engine_failed", "melted"))
            with pytest.raises(EngineFailed, match="melted"):
                await engine.trace(0.01)
        other = Engine(FakeModel())
        async with other:
            pass
        with pytest.raises(EngineClosed, match="closed"):
            await other.trace(0.01)

    aftermath.run(main)


def test_only_one_trace_is_recorded_at_a_time(play: Play):
    async def body(engine: Engine) -> None:
        recording = asyncio.create_task(engine.trace(60))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="another trace"):
            await engine.trace(1)
        recording.cancel()
        await asyncio.wait([recording])
        assert recording.cancelled()
        assert await engine.trace(0.001)

    play(body)


@pytest.mark.parametrize("seconds", [0, -1, 601, float("nan"), float("inf")])
def test_a_length_out_of_range_is_refused(seconds: float):
    async def main() -> None:
        tracing = Tracing(Tracer(), OrderLine(), tuple)
        with pytest.raises(InvalidRequest, match="seconds"):
            await tracing.record(seconds, "fake")
        assert not tracing.tracer.on

    asyncio.run(main())


def test_a_new_core_is_told_to_record_on():
    async def main() -> None:
        orders = Mailbox[object]("orders", 8)
        line = OrderLine()
        line.connect(orders.address())
        tracing = Tracing(Tracer(), line, tuple)
        tracing.renew()
        assert orders.drain_nowait() == []
        recording = asyncio.create_task(tracing.record(60, "fake"))
        await asyncio.sleep(0)
        tracing.renew()
        assert orders.drain_nowait() == [StartTrace(), StartTrace()]
        recording.cancel()
        await asyncio.sleep(0)
        assert orders.drain_nowait() == [StopTrace()]
        tracing.hear(TracePart((), last=True))
        await asyncio.wait([recording])
        assert not tracing.tracer.on

    asyncio.run(main())
