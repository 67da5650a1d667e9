"""Devices and cores that hang: found by the watchdog, whose looks the test takes."""

import asyncio
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from legato import Engine, EngineSettings, EngineStalled, FakeModel, SamplingParams
from legato.actors import core_process
from legato.actors.core_process import ProcessCore
from legato.actors.watchdog import ENOUGH, Watchdog
from legato.gpu.fake import fake_answer
from legato.protocol.core import CoreStats
from legato.protocol.errors import InvalidSetting

Play = Callable[..., None]

LONG = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
PROMPT = tuple(b"hello")


@pytest.fixture
def broken_core(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sabotage"))
    import broken_core  # pyright: ignore[reportMissingImports]

    return broken_core


class Watch:
    """Takes the looks that time would bring."""

    def __init__(self, engine: Engine) -> None:
        self.dog: Watchdog = engine._life.assembly.watchdog
        self.core = engine.core
        self.interrupted = False
        self._heard = asyncio.Event()
        self._hear, self.dog.hear = self.dog.hear, self.hear
        assert self.core is not None
        self._interrupt, self.core.interrupt = self.core.interrupt, self.interrupt

    def hear(self, stats: CoreStats) -> None:
        self._hear(stats)
        self._heard.set()

    async def interrupt(self, failure: Any) -> bool:
        self.interrupted = True
        return await self._interrupt(failure)

    async def look_until_found(self) -> int:
        """Look until the core is interrupted, with its answer to each look."""
        await self.dog.look()  # the first only finds that there is a core
        num_looks = 0
        while not self.interrupted:
            self._heard.clear()
            await self.dog.look()
            num_looks += 1
            if not self.interrupted:
                await self._heard.wait()
        return num_looks

    async def look_at_silence(self) -> None:
        """Look so often that a core that answers nothing is interrupted."""
        for _ in range(1 + ENOUGH):
            if not self.interrupted:
                await self.dog.look()
        assert self.interrupted


async def read(stream: Any, most: int) -> list[int]:
    ids: list[int] = []
    while len(ids) < most:
        ids += (await anext(stream)).token_ids
    return ids


def opening(
    gate: threading.Event, body: Callable[[Engine], Awaitable[None]]
) -> Callable[[Engine], Awaitable[None]]:
    """Run a body, and let the device go on at its end, so that the engine can."""

    async def opened(engine: Engine) -> None:
        try:
            await body(engine)
        finally:
            gate.set()

    return opened


@pytest.mark.parametrize("place", ["launching", "waiting", "the only thread"])
def test_in_a_thread_a_hang_fails_those_who_wait_until_it_is_over(
    place: str,
    play: Play,
    broken_core: Any,
    aftermath: Any,
    caplog: pytest.LogCaptureFixture,
):
    gate = threading.Event()

    async def body(engine: Engine) -> None:
        watch = Watch(engine)
        recovered = asyncio.Event()
        recover = engine._life.door.recover
        engine._life.door.recover = lambda: (recover(), recovered.set())
        async with (
            engine.stream(PROMPT, LONG) as stream,
            engine.stream(PROMPT, LONG) as other,
        ):
            ids = await read(stream, broken_core.HANG_AT - 1)
            with caplog.at_level(logging.ERROR):
                assert await watch.look_until_found() >= ENOUGH
            assert engine.state == engine.stats().state == "stalled"
            assert engine.failure == "no step of the device has ended for 300 s"
            with pytest.raises(EngineStalled, match="no step of the device"):
                await read(stream, len(ids) + LONG.max_tokens)
            with pytest.raises(EngineStalled):
                await other.collect()
        with pytest.raises(EngineStalled):
            await engine.generate("afterwards", LONG)
        assert "legato-device" in caplog.text
        assert f" in {'launch' if place == 'launching' else 'wait'}\n" in caplog.text
        gate.set()
        await recovered.wait()
        assert (engine.state, engine.failure) == ("ready", "")
        answer = await engine.generate(PROMPT, LONG)
        assert answer.token_ids == fake_answer(PROMPT, 60, end=None)
        await aftermath.settle(engine)

    build = partial(broken_core.HangingRunner, place, gate)
    play(opening(gate, body), FakeModel(runner=build))


def test_an_engine_that_hangs_can_be_left(play: Play, broken_core: Any):
    gate = threading.Event()

    async def body(engine: Engine) -> None:
        async with engine.stream(PROMPT, LONG) as stream:
            await read(stream, broken_core.HANG_AT - 1)
            await Watch(engine).look_until_found()
            assert engine.state == "stalled"
        await engine.drain(0.0)
        assert engine.state == "draining"

    build = partial(broken_core.HangingRunner, "waiting", gate)
    play(opening(gate, body), FakeModel(runner=build))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["launching", "waiting", "the only thread"])
def test_a_core_process_whose_device_hangs_is_replaced_and_no_token_is_lost(
    place: str,
    broken_core: Any,
    aftermath: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    async def body(engine: Engine) -> None:
        watch = Watch(engine)
        async with engine.stream(PROMPT, LONG) as stream:
            ids = await read(stream, broken_core.HANG_AT - 1)
            with caplog.at_level(logging.ERROR):
                assert await watch.look_until_found() >= ENOUGH
                ids += [i async for delta in stream for i in delta.token_ids]
        assert tuple(ids) == fake_answer(PROMPT, 60, end=None)
        assert (engine.state, engine.stats().core_restarts) == ("ready", 1)
        assert "no step of the device has ended for 300 s" in caplog.text
        assert "broken_core.py" in caplog.text
        assert f" in {'launch' if place == 'launching' else 'wait'}\n" in caplog.text

    build = partial(broken_core.build_hanging, place, str(tmp_path / "hung"))
    aftermath.play(body, FakeModel(runner=build), placement="process")


@pytest.mark.slow
def test_a_core_process_whose_scheduler_hangs_is_replaced(
    broken_core: Any, aftermath: Any, tmp_path: Path
):
    async def body(engine: Engine) -> None:
        watch = Watch(engine)
        async with engine.stream(PROMPT, LONG) as stream:
            ids = await read(stream, 1)
            await watch.look_at_silence()
            ids += [i async for delta in stream for i in delta.token_ids]
        assert tuple(ids) == fake_answer(PROMPT, 60, end=None)
        assert engine.stats().core_restarts == 1

    build = partial(broken_core.build_hanging, "planning", str(tmp_path / "hung"))
    aftermath.play(body, FakeModel(runner=build), placement="process")


@pytest.mark.slow
@pytest.mark.parametrize("killable", [True, False])
def test_a_core_process_that_hears_no_signal_is_replaced(
    killable: bool, aftermath: Any, monkeypatch: pytest.MonkeyPatch
):
    reap, left = core_process._reap, list[subprocess.Popen[bytes]]()

    def pretend(child: subprocess.Popen[bytes], patience_s: float) -> None:
        if killable or left[0] is not child:
            reap(child, patience_s)

    monkeypatch.setattr(core_process, "_reap", pretend)
    monkeypatch.setattr(core_process, "DUMP_S", 0.0)

    async def body(engine: Engine) -> None:
        watch = Watch(engine)
        assert isinstance(watch.core, ProcessCore)
        assert watch.core._child is not None
        left.append(watch.core._child)
        async with engine.stream(PROMPT, LONG) as stream:
            ids = await read(stream, 1)
            os.kill(left[0].pid, signal.SIGSTOP)
            await watch.look_at_silence()
            ids += [i async for delta in stream for i in delta.token_ids]
        assert tuple(ids) == fake_answer(PROMPT, 60, end=None)
        assert engine.stats().core_restarts == 1
        left[0].kill()
        left[0].wait()

    aftermath.play(body, FakeModel(step_s=0.001), placement="process")


@pytest.mark.slow
def test_a_core_process_that_crashes_leaves_its_stacks_in_the_log(
    aftermath: Any, caplog: pytest.LogCaptureFixture
):
    async def body(engine: Engine) -> None:
        assert isinstance(engine.core, ProcessCore)
        assert engine.core.pid is not None
        async with engine.stream(PROMPT, LONG) as stream:
            ids = await read(stream, 1)
            os.kill(engine.core.pid, signal.SIGSEGV)
            ids += [i async for delta in stream for i in delta.token_ids]
        assert tuple(ids) == fake_answer(PROMPT, 60, end=None)
        assert "Fatal Python error: Segmentation fault" in caplog.text
        assert "core_child.py" in caplog.text

    aftermath.play(body, FakeModel(step_s=0.001), placement="process")


def test_a_child_that_outlives_a_kill_is_left_behind(caplog: pytest.LogCaptureFixture):
    class Child:
        pid = 7
        num_kills = 0

        def wait(self, timeout: float) -> int:
            raise subprocess.TimeoutExpired("core", timeout)

        def kill(self) -> None:
            self.num_kills += 1

    child: Any = Child()
    core_process._reap(child, 0.0)
    assert child.num_kills == 1
    assert "process 7 cannot be killed" in caplog.text


def test_without_a_timeout_nobody_watches(play: Play):
    async def body(engine: Engine) -> None:
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "legato-keeper" in names
        assert "legato-watchdog" not in names

    play(body, step_timeout_s=0)


@pytest.mark.parametrize("timeout_s", [-1.0, 0.5, float("inf"), float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout_s: float):
    with pytest.raises(InvalidSetting, match="step_timeout_s is 0"):
        EngineSettings(step_timeout_s=timeout_s)
    with pytest.raises(InvalidSetting, match="step_timeout_s is 0"):
        Engine(FakeModel(), step_timeout_s=timeout_s)
