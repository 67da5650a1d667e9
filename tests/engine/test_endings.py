"""An engine that ends, and a core that is killed, at every stage of the work."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from legato import (
    Engine,
    EngineClosed,
    EngineFailed,
    FakeModel,
    FinishReason,
    SamplingParams,
)
from legato.actors.core_process import ProcessCore
from legato.gpu.fake import FAKE_LIMITS, fake_answer

Play = Callable[..., None]
pytestmark = pytest.mark.slow

LONG = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)
ENDLESS = SamplingParams(temperature=0, max_tokens=1900, ignore_eos=True)


def kill(engine: Engine) -> None:
    core = engine.core
    assert isinstance(core, ProcessCore)
    assert core.pid is not None
    with contextlib.suppress(ProcessLookupError):
        os.kill(core.pid, signal.SIGKILL)


async def begun(engine: Engine) -> None:
    """Wait until the core has a sequence at work."""
    while not engine.stats().core.running:  # noqa: ASYNC110 # nobody tells of it
        await asyncio.sleep(0)


def test_a_core_killed_in_prefill_costs_a_pause(aftermath: Any):
    async def body(engine: Engine) -> None:
        prompt = tuple(b"x" * 1500)
        reading = asyncio.create_task(aftermath.read(engine, prompt, LONG))
        await begun(engine)
        assert engine.stats().core.output_tokens == 0
        kill(engine)
        ids, end = await reading
        assert ids == fake_answer(prompt, 200, end=None)
        assert end is FinishReason.LENGTH
        assert engine.stats().core_restarts == 1

    limits = msgspec.structs.replace(FAKE_LIMITS, max_step_tokens=8)
    model = FakeModel(limits=limits, step_s=0.002)
    aftermath.play(body, model, placement="process")


def test_a_core_killed_in_a_drain_still_finishes_what_runs(aftermath: Any):
    async def body(engine: Engine) -> None:
        prompts = [tuple(f"prompt {n}".encode()) for n in range(5)]
        reading = [
            asyncio.create_task(aftermath.read(engine, prompt, LONG))
            for prompt in prompts
        ]
        await begun(engine)
        draining = asyncio.create_task(engine.drain(60))
        await asyncio.sleep(0)
        kill(engine)
        await draining
        for prompt, (ids, end) in zip(
            prompts, await asyncio.gather(*reading), strict=True
        ):
            assert ids == fake_answer(prompt, 200, end=None)
            assert end is FinishReason.LENGTH
        assert engine.state == "draining"

    aftermath.play(body, FakeModel(step_s=0.001), placement="process")


@pytest.mark.parametrize("late", [False, True])
def test_a_core_killed_as_the_engine_ends_holds_nothing_up(late: bool, aftermath: Any):
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001), placement="process") as engine:
            reading = asyncio.create_task(aftermath.read(engine, "x", ENDLESS))
            await begun(engine)
            if late:
                asyncio.get_running_loop().call_soon(kill, engine)
            else:
                kill(engine)
        _, end = await reading
        assert isinstance(end, EngineClosed)

    aftermath.run(main)


def test_a_core_killed_as_it_starts_fails_the_start_with_the_cause(
    aftermath: Any, monkeypatch: pytest.MonkeyPatch
):
    spawn = ProcessCore._spawn

    def stillborn(core: ProcessCore, *sockets: socket.socket) -> None:
        spawn(core, *sockets)
        assert core.pid is not None
        os.kill(core.pid, signal.SIGKILL)

    monkeypatch.setattr(ProcessCore, "_spawn", stillborn)

    async def main() -> None:
        with pytest.raises(EngineFailed, match="killed by signal 9"):
            async with Engine(FakeModel(), placement="process"):
                pass

    aftermath.run(main)


@pytest.mark.parametrize("placement", ["thread", "process"])
def test_an_engine_that_ends_under_load_ends_every_stream(
    placement: str, aftermath: Any
):
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001), placement=placement) as engine:
            readers = [
                asyncio.create_task(aftermath.read(engine, f"reader {n}", ENDLESS))
                for n in range(100)
            ]
            await begun(engine)
        for _, end in await asyncio.gather(*readers):
            assert isinstance(end, EngineClosed)

    aftermath.run(main)


def test_a_drain_past_its_deadline_ends_what_is_left(play_placed: Play, aftermath: Any):
    async def body(engine: Engine) -> None:
        readers = [
            asyncio.create_task(aftermath.read(engine, f"reader {n}", params))
            for n, params in enumerate([LONG, ENDLESS] * 5)
        ]
        await begun(engine)
        await engine.drain(0.0)
        ends = [end for _, end in await asyncio.gather(*readers)]
        assert all(isinstance(end, EngineClosed) for end in ends)

    play_placed(body, FakeModel(step_s=0.001))


def test_nothing_ends_twice_when_all_is_cancelled_as_the_engine_ends(aftermath: Any):
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001)) as engine:
            readers = [
                asyncio.create_task(aftermath.read(engine, f"reader {n}", ENDLESS))
                for n in range(20)
            ]
            await begun(engine)
            for reader in readers[::2]:
                reader.cancel()
        ends = await asyncio.gather(*readers, return_exceptions=True)
        assert sum(isinstance(end, asyncio.CancelledError) for end in ends) == 10

    aftermath.run(main)
