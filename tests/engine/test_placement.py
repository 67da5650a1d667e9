"""Both placements, and the loss of the whole core in each."""

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from legato import Delta, Engine, EngineFailed, FakeModel, FinishReason, SamplingParams
from legato.actors.core_process import ProcessCore
from legato.gpu.fake import fake_answer

Play = Callable[..., None]
pytestmark = pytest.mark.slow
LONG = SamplingParams(temperature=0, max_tokens=300, ignore_eos=True)


def core_pid(engine: Engine) -> int:
    core = engine.core
    assert isinstance(core, ProcessCore)
    assert core.pid is not None
    return core.pid


def truth(prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    return fake_answer(prompt, count, end=None)


def test_64_streams_a_third_cancelled_leave_every_page_in_the_pool(play_placed: Play):
    async def body(engine: Engine) -> None:
        dice = random.Random(11)

        async def one(index: int) -> None:
            prompt = tuple(dice.randbytes(dice.randrange(1, 300)))
            stop_at = dice.randrange(0, 40) if index % 3 == 0 else None
            params = SamplingParams(temperature=0, max_tokens=40)
            seen: list[Delta] = []
            async with engine.stream(prompt, params) as stream:
                async for delta in stream:
                    seen.append(delta)
                    if stop_at is not None and len(seen) >= stop_at:
                        stream.cancel()
            ids = tuple(i for delta in seen for i in delta.token_ids)
            whole = fake_answer(prompt, 40)
            assert ids == whole[: len(ids)]
            if seen[-1].finish_reason is not FinishReason.CANCELLED:
                assert ids == whole

        async with asyncio.TaskGroup() as group:
            for index in range(64):
                group.create_task(one(index))
        await engine.wait_idle()
        core = engine.stats().core
        assert core.live == core.pages_used == 0
        assert core.pages_free + core.pages_cached == core.pages_total

    play_placed(body)


@pytest.mark.parametrize("after_tokens", [0, 1, 40])
def test_a_killed_core_process_costs_a_pause_and_no_token(after_tokens: int, aftermath):
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001), placement="process") as engine:
            prompts = [tuple(f"prompt number {n}".encode()) for n in range(6)]

            async def one(prompt: tuple[int, ...], kill: bool) -> tuple[int, ...]:
                ids: list[int] = []
                async with engine.stream(prompt, LONG) as stream:
                    killed = not kill
                    async for delta in stream:
                        ids += delta.token_ids
                        if not killed and len(ids) >= after_tokens:
                            killed = True
                            os.kill(core_pid(engine), signal.SIGKILL)
                return tuple(ids)

            if after_tokens == 0:
                os.kill(core_pid(engine), signal.SIGKILL)
            answers = await asyncio.gather(
                *(one(p, n == 0 and after_tokens > 0) for n, p in enumerate(prompts))
            )
            assert answers == [truth(prompt, 300) for prompt in prompts]
            assert engine.state == "ready"
            assert engine.stats().core_restarts == 1
            await aftermath.settle(engine)

    aftermath.run(main)


def test_cancelled_and_paused_streams_survive_the_loss_of_the_core(aftermath):
    async def main() -> None:
        async with Engine(FakeModel(step_s=0.001), placement="process") as engine:
            slow_params = SamplingParams(temperature=0, max_tokens=900, ignore_eos=True)
            async with (
                engine.stream("slow", slow_params) as slow,
                engine.stream("quit", LONG) as quits,
            ):
                await anext(quits)
                while engine.stats().core.paused == 0:
                    await engine.generate("other", SamplingParams(max_tokens=20))
                os.kill(core_pid(engine), signal.SIGKILL)
                quits.cancel()
                last = [delta async for delta in quits][-1]
                assert last.finish_reason in (
                    FinishReason.CANCELLED,
                    FinishReason.LENGTH,  # it ended before the core did
                )
                answer = await slow.collect()
            assert answer.token_ids == truth(tuple(b"slow"), 900)
            await aftermath.settle(engine)

    aftermath.run(main)


def test_a_core_lost_too_often_ends_every_stream_with_the_cause(aftermath):
    async def main() -> None:
        async with Engine(
            FakeModel(step_s=0.001), placement="process", restart_intensity=1
        ) as engine:
            with pytest.raises(EngineFailed, match="killed by signal 9"):
                await kill_at_each_token(engine)
            assert engine.state == "failed"

    aftermath.run(main)


async def kill_at_each_token(engine: Engine) -> None:
    async with engine.stream("x", LONG) as stream:
        async for _ in stream:
            os.kill(core_pid(engine), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches a process by fd")
def test_the_child_leaves_with_its_parent(tmp_path: Path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio\n"
        "from legato import Engine, FakeModel\n"
        "async def main():\n"
        "    async with Engine(FakeModel(), placement='process') as engine:\n"
        "        print(engine.core.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended, "the child outlived its parent"


def test_nothing_is_left_of_a_core_process(aftermath):
    pids: list[int] = []

    async def main() -> None:
        async with Engine(FakeModel(), placement="process") as engine:
            await engine.generate("x", SamplingParams(temperature=0, max_tokens=3))
            pids.append(core_pid(engine))

    aftermath.run(main)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
