"""An exception in every actor in turn: a pause, or one answer; never all of them."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from legato import Engine, EngineFailed, FakeModel, FinishReason, SamplingParams
from legato.actors.core import ThreadCore
from legato.actors.core_keeper import CoreKeeper
from legato.actors.core_process import ProcessCore
from legato.actors.detokenizer import Detokenizer
from legato.actors.open_stream import OpenStream
from legato.actors.streams import Streams
from legato.actors.supervisor import Supervisor
from legato.actors.tokenizer import Tokenizer
from legato.engine.assembly import Assembly
from legato.engine.core_view import CoreView
from legato.engine.metrics import EngineMetrics
from legato.gpu.fake import fake_answer

Play = Callable[..., None]
pytestmark = pytest.mark.slow

PARAMS = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
SLOW = SamplingParams(temperature=0, max_tokens=600, ignore_eos=True)

# Imported by name in the child too.
IN_CORE = [
    "scheduler admits",
    "scheduler plans",
    "scheduler commits",
    "scheduler cancels",
    "scheduler pauses",
    "scheduler reports",
    "scheduler measures",
    "executor takes",
    "completion takes",
    "device launches",
    "device steps",
]


@pytest.fixture
def broken_core(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "sabotage"))
    import broken_core  # pyright: ignore[reportMissingImports]

    return broken_core


async def live_through(engine: Engine, aftermath: Any) -> None:
    """Every kind of request at once: read, cancelled, left, and not read for long."""
    prompts = [tuple(f"prompt number {n}".encode()) for n in range(6)]

    async def quit_early(leave: bool) -> None:
        async with engine.stream("quitter", SLOW) as stream:
            await anext(stream)
            if leave:
                return
            stream.cancel()
            *_, last = [delta async for delta in stream]
            assert last.finish_reason is FinishReason.CANCELLED

    async def dawdle() -> None:
        async with engine.stream("dawdler", SLOW) as stream:
            while not engine.stats().core.paused:
                await engine.generate("meanwhile", PARAMS)
            answer = await stream.collect()
        assert answer.token_ids == fake_answer(b"dawdler", 600, end=None)

    *answers, _, _, _ = await asyncio.gather(
        *(aftermath.read(engine, prompt, PARAMS) for prompt in prompts),
        quit_early(True),
        quit_early(False),
        dawdle(),
    )
    for prompt, (ids, end) in zip(prompts, answers, strict=True):
        assert ids == fake_answer(prompt, 40, end=None)
        assert end is FinishReason.LENGTH
    assert engine.state == "ready"


def breaks_device(place: str) -> bool:
    return place.startswith(("device", "executor", "completion"))


@pytest.mark.parametrize("place", IN_CORE)
def test_an_exception_in_the_core_costs_a_pause(
    place: str, aftermath: Any, broken_core: Any, tmp_path: Path
):
    async def body(engine: Engine) -> None:
        await live_through(engine, aftermath)
        stats = engine.stats()
        device = breaks_device(place)
        assert (stats.core.restarts, stats.core_restarts) == (device, not device)

    build = partial(broken_core.build, place, str(tmp_path / "broken"))
    aftermath.play(body, FakeModel(runner=build))


@pytest.mark.parametrize(
    "place", ["scheduler commits", "device steps", "orders are passed on"]
)
def test_an_exception_in_the_core_process_costs_a_pause(
    place: str, aftermath: Any, broken_core: Any, tmp_path: Path
):
    async def body(engine: Engine) -> None:
        await live_through(engine, aftermath)
        stats = engine.stats()
        device = breaks_device(place)
        assert (stats.core.restarts, stats.core_restarts) == (device, not device)

    build = partial(broken_core.build, place, str(tmp_path / "broken"))
    aftermath.play(body, FakeModel(runner=build), placement="process")


def test_reports_that_are_not_passed_on_cost_a_pause(aftermath: Any, broken_core: Any):
    async def body(engine: Engine) -> None:
        broken_core.break_once(ProcessCore, "_put", 9)
        await live_through(engine, aftermath)
        assert engine.stats().core_restarts == 1

    aftermath.play(body, placement="process")


def test_a_device_that_cannot_be_freed_after_its_failure_is_replaced(
    aftermath: Any, broken_core: Any, tmp_path: Path
):
    async def body(engine: Engine) -> None:
        await live_through(engine, aftermath)
        assert engine.stats().core.restarts == 1

    build = partial(broken_core.build_unclosable, str(tmp_path / "broken"))
    aftermath.play(body, FakeModel(runner=build))


def test_a_device_that_does_not_tell_its_limits_fails_the_start(aftermath: Any):
    class Mute:
        launch_depth = 1
        memory_report = ""

        def equip(self, grammars: object) -> None:
            pass

        @property
        def limits(self) -> object:
            raise ZeroDivisionError("no limits")

    async def main() -> None:
        with pytest.raises(EngineFailed, match="no limits"):
            async with Engine(FakeModel(runner=Mute), restart_intensity=0):
                pass

    aftermath.run(main)


@pytest.mark.parametrize(
    ("owner", "name", "at"),
    [
        (Assembly, "_hear", 4),
        (Assembly, "_hear", 9),
        (CoreKeeper, "hear", 3),
        (CoreView, "hear", 5),
        (EngineMetrics, "delivered", 5),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_an_exception_in_the_front_end_costs_a_pause(
    owner: Any, name: str, at: int, play: Play, aftermath: Any, broken_core: Any
):
    async def body(engine: Engine) -> None:
        broken_core.break_once(owner, name, at)
        await live_through(engine, aftermath)

    play(body)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Tokenizer, "_admit"),
        (Detokenizer, "_deliver"),
        (OpenStream, "arrive"),
        (OpenStream, "settle"),
    ],
)
def test_an_exception_over_an_answer_ends_it_with_the_cause_and_no_other(
    owner: Any, name: str, play: Play, aftermath: Any, broken_core: Any
):
    async def body(engine: Engine) -> None:
        async with engine.stream("first", SLOW) as first:
            await anext(first)
            while not engine.stats().core.paused:
                await engine.generate("meanwhile", PARAMS)
            # Once another answer is whole, nothing more comes for the paused one.
            await engine.generate("meanwhile", PARAMS)
            broken_core.break_once(owner, name, 0)
            _, end = await aftermath.read(engine, "second", PARAMS)
            assert isinstance(end, EngineFailed)
            assert f"{name} broke" in str(end)
            await live_through(engine, aftermath)
            await first.collect()

    play(body)


def test_a_tokenizer_that_breaks_does_its_work_again(
    play: Play, aftermath: Any, broken_core: Any
):
    async def body(engine: Engine) -> None:
        broken_core.break_once(Streams, "fail", 0)
        broken_core.break_once(Tokenizer, "_admit", 1)
        await live_through(engine, aftermath)

    play(body)


def test_a_keeper_that_breaks_replaces_the_core_all_the_same(
    play: Play, aftermath: Any, broken_core: Any, monkeypatch: pytest.MonkeyPatch
):
    async def body(engine: Engine) -> None:
        monkeypatch.setattr(CoreKeeper, "start", CoreKeeper.start)
        broken_core.break_once(CoreKeeper, "start", 0)
        broken_core.break_once(type(engine.core), "join", 0)
        broken_core.break_once(*broken_core.PLACES["scheduler commits"])
        await live_through(engine, aftermath)
        assert engine.stats().core_restarts == 2

    play(body)


@pytest.mark.parametrize(
    ("owner", "name"), [(Tokenizer, "run"), (Detokenizer, "run"), (CoreKeeper, "run")]
)
def test_an_actor_that_breaks_too_often_fails_the_engine_with_the_cause(
    owner: Any, name: str, play: Play, aftermath: Any, monkeypatch: pytest.MonkeyPatch
):
    async def broken(_self: object) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("broken for good")

    monkeypatch.setattr(owner, name, broken)

    async def body(engine: Engine) -> None:
        _, end = await aftermath.read(engine, "x", SLOW)
        assert isinstance(end, EngineFailed)
        assert "broken for good" in str(end)
        assert engine.state == "failed"
        assert "broken for good" in engine.failure
        # It computes for nobody, so it ends; it is not only forgotten.
        core = engine._life.assembly.keeper.core
        assert isinstance(core, ThreadCore)
        await core.join()
        assert not core.is_alive

    play(body)


def test_a_watch_that_breaks_fails_the_engine_rather_than_leave_it_unwatched(
    play: Play, aftermath: Any, monkeypatch: pytest.MonkeyPatch
):
    async def broken(_self: object) -> None:
        raise ZeroDivisionError("nobody watches")

    monkeypatch.setattr(Supervisor, "wait", broken)

    async def body(engine: Engine) -> None:
        _, end = await aftermath.read(engine, "x", SLOW)
        assert isinstance(end, EngineFailed)
        assert "nobody watches" in str(end)
        assert engine.state == "failed"

    play(body)
