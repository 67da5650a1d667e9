"""Readers that vanish, full mailboxes at every stage, messages that are too large."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from legato import (
    Delta,
    Engine,
    EngineFailed,
    FakeModel,
    FinishReason,
    LegatoError,
    Overloaded,
    SamplingParams,
)
from legato.actors.core_process import ProcessCore
from legato.actors.scheduling.planner import Planner
from legato.engine.assembly import ABANDONED_PROMPTS
from legato.gpu.fake import FakeRunner, FakeStep, fake_answer
from legato.protocol.steps import StepPlan

Play = Callable[..., None]
pytestmark = pytest.mark.slow

SHORT = SamplingParams(temperature=0, max_tokens=10, ignore_eos=True)
LONG = SamplingParams(temperature=0, max_tokens=700, ignore_eos=True)


def test_a_hundred_readers_that_vanish_at_once_cost_the_others_nothing(
    play_placed: Play, aftermath: Any
):
    async def body(engine: Engine) -> None:
        reading = asyncio.Semaphore(0)

        async def read(number: int) -> None:
            async with engine.stream(f"reader {number}", LONG) as stream:
                await anext(stream)
                reading.release()
                await stream.collect()

        readers = [asyncio.create_task(read(number)) for number in range(100)]
        async with engine.stream("stays", SHORT) as stays:
            for _ in range(60):
                await reading.acquire()
            for reader in readers:
                reader.cancel()
            answer = await stays.collect()
        assert answer.token_ids == fake_answer(b"stays", 10, end=None)
        await asyncio.wait(readers)
        assert all(reader.cancelled() for reader in readers)

    play_placed(body, FakeModel(step_s=0.001))


def test_a_slow_reader_gets_all_of_it_in_larger_pieces(
    play_placed: Play, aftermath: Any
):
    async def body(engine: Engine) -> None:
        async with engine.stream("slow", LONG) as slow:
            deltas: list[Delta] = []
            async for delta in slow:
                deltas.append(delta)
                await engine.generate("quick", SHORT)
        ids = tuple(i for delta in deltas for i in delta.token_ids)
        assert ids == fake_answer(b"slow", 700, end=None)
        assert len(deltas) < 700

    play_placed(body)


def test_prompts_beyond_the_tokenizers_room_are_refused_and_leave_nothing(
    play: Play, aftermath: Any
):
    async def body(engine: Engine) -> None:
        refused = 0
        # No turn of the loop between them: the tokenizer takes none.
        for _ in range(2 + ABANDONED_PROMPTS + 5):
            context = engine.stream("left at once", SHORT)
            try:
                await context.__aenter__()
            except Overloaded as error:
                refused += error.what == "too many prompts wait to be tokenized"
            else:
                await context.__aexit__(None, None, None)
        assert refused == 5
        await engine.wait_idle()
        assert (await engine.generate("welcome", SHORT)).token_ids

    play(body, max_requests=2)


def test_orders_beyond_a_stopped_cores_room_wait_or_are_refused(aftermath: Any):
    async def body(engine: Engine) -> None:
        core = engine.core
        assert isinstance(core, ProcessCore)
        assert core.pid is not None
        async with engine.stream("before", LONG) as before:
            await anext(before)
            os.kill(core.pid, signal.SIGSTOP)
            # Each leaves a cancel and an admission behind, until no room is left.
            ends: list[Exception] = []
            for number in range(40):
                async with engine.stream(f"lost {number}", SHORT) as stream:
                    opened = stream._opened
                    await opened.decided()
                    if opened.failure is not None:
                        ends.append(opened.failure)
            assert ends
            assert all("scheduler's queue is full" in str(end) for end in ends)
            os.kill(core.pid, signal.SIGCONT)
            answer = await before.collect()
        assert answer.finish_reason is FinishReason.LENGTH

    aftermath.play(body, placement="process", max_requests=2)


def test_orders_beyond_a_busy_schedulers_room_wait_or_are_refused(
    play: Play, aftermath: Any, monkeypatch: pytest.MonkeyPatch
):
    gate, plan, held = threading.Event(), Planner.plan, threading.Event()

    def plan_when_open(planner: Planner, now_s: float) -> StepPlan | None:
        held.set()
        assert gate.wait(30)
        return plan(planner, now_s)

    async def body(engine: Engine) -> None:
        await engine.wait_idle()
        held.clear()
        monkeypatch.setattr(Planner, "plan", plan_when_open)
        async with engine.stream("before", SHORT) as before:
            await asyncio.to_thread(held.wait)
            ends: list[LegatoError] = []
            for number in range(30):
                async with engine.stream(f"lost {number}", SHORT) as stream:
                    await stream._opened.decided()
                    failure = stream._opened.failure
                    if failure is not None:
                        ends.append(failure)
            assert len(ends) == 30 - 4  # the room of an engine for two
            gate.set()
            answer = await before.collect()
        assert answer.token_ids == fake_answer(b"before", 10, end=None)

    play(body, max_requests=2)


def test_reports_beyond_a_busy_front_ends_room_are_merged(play: Play, aftermath: Any):
    stepped = threading.Semaphore(0)

    class Counting(FakeRunner):
        def launch(self, plan: StepPlan) -> FakeStep:
            stepped.release()
            return super().launch(plan)

    async def body(engine: Engine) -> None:
        async with engine.stream("busy", LONG) as stream:
            await anext(stream)
            for _ in range(200):  # the loop stands still; the core goes on
                assert stepped.acquire(timeout=30)
            reports = engine.stats().mailboxes[-1]
            assert reports.coalesced > 0
            assert reports.depth <= reports.capacity
            answer = await stream.collect()
        assert answer.usage.output_tokens == 700

    play(body, FakeModel(runner=Counting))


def test_a_prompt_too_large_for_a_message_fails_alone(aftermath: Any):
    async def body(engine: Engine) -> None:
        core = engine.core
        assert isinstance(core, ProcessCore)
        assert core._orders is not None
        credits = core._orders._credits  # as if the child had said so
        credits.hello = msgspec.structs.replace(credits.hello, max_message_bytes=900)
        async with engine.stream("beside", LONG) as beside:
            ids, end = await aftermath.read(engine, "x" * 1000, SHORT)
            assert ids == ()
            assert isinstance(end, LegatoError)
            assert "max_message_bytes" in str(end)
            assert not isinstance(end, EngineFailed)
            assert len((await beside.collect()).token_ids) == 700
        assert engine.stats().core_restarts == 0

    aftermath.play(body, placement="process")
