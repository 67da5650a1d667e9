"""Ranks in processes of their own: started, lost, ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from legato import Engine, SamplingParams
from legato.gpu.checkpoint import ModelConfig
from legato.gpu.checkpoint_model import CheckpointModel
from legato.gpu.parallel import crew
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.errors import EngineFailed, InvalidSetting
from legato.protocol.steps import RowSampling, StepPlan, StepRow

GREEDY = RowSampling(0.0)
PROMPT = tuple(range(2, 39))
OPTIONS: dict[str, Any] = {"device": "cpu", "dtype": "float32", "kv_bytes": 1 << 20}
LONG = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)


@pytest.fixture
def tiny(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Callable[..., Path],
) -> str:
    folder = write_directory(tmp_path / "tiny", tiny_config, random_parameters())
    ids = {f"t{index}": index for index in range(tiny_config.vocab_size)}
    tokenizer = Tokenizer(BPE(ids, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


def model(path: str, ranks: int, **options: Any) -> CheckpointModel:
    settings = RunnerSettings(
        device="cpu",
        dtype="float32",
        tensor_parallel=ranks,
        kv_bytes=1 << 20,
        **options,
    )
    return CheckpointModel(path, settings)


def rank_pids(parent: int) -> list[int]:
    """The ranks below a process, however deep."""
    children = psutil.Process(parent).children(recursive=True)
    alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return [
        child.pid for child in alive if f"{crew.__package__}.rank" in child.cmdline()
    ]


@pytest.mark.slow
def test_a_process_for_each_rank_runs_the_same_steps_and_tells_its_death(
    tiny: str, theatre: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    prompts = [PROMPT, PROMPT[::-1], PROMPT[5:]]

    def play(runner: Any) -> list[list[int]]:
        lines = [theatre.Line(p, GREEDY, 12, slot) for slot, p in enumerate(prompts)]
        return theatre.Stage(runner, chunk=7).play(lines)

    alone = play(model(tiny, 1).build())
    runner = model(tiny, 2).build()
    try:
        assert play(runner) == alone
        (pid,) = rank_pids(os.getpid())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match="rank 1 was killed by signal 9"):
            run_on(runner)
    finally:
        runner.close()
    runner.close()
    assert not rank_pids(os.getpid())
    assert not list(tmp_path.glob("legato-*"))


def run_on(runner: ModelRunner) -> None:
    """Run steps until one fails: a death may be noticed in the next alone."""
    for step in range(1000, 2000):
        runner.launch(StepPlan(step, (StepRow(0, 0, (4,), True),))).wait()


DIES = """
import os, signal, sys
from legato.gpu.checkpoint_model import CheckpointModel
from legato.gpu.settings import RunnerSettings

settings = RunnerSettings(device="cpu", tensor_parallel=2)
runner = CheckpointModel(sys.argv[1], settings).build()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_ranks_leave_with_a_leader_that_is_killed(tiny: str, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    env = os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    # Reading ends when nobody holds the other end any more: with the last process.
    ran = subprocess.run(
        [sys.executable, "-c", DIES, tiny],
        stdout=subprocess.PIPE,
        timeout=120,
        env=env,
    )
    assert ran.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("legato-*"))


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["thread", "process"])
def test_a_killed_rank_costs_a_pause_and_not_an_answer(
    tiny: str, placement: Any, aftermath: Any
) -> None:
    killed: list[int] = []

    async def one_rank() -> None:
        async with Engine(tiny, **OPTIONS) as engine:
            answer = await engine.generate(list(PROMPT), LONG)
            alone.extend(answer.token_ids)

    async def two_ranks() -> None:
        engine = Engine(tiny, tensor_parallel=2, placement=placement, **OPTIONS)
        async with engine:
            ids: list[int] = []
            async with engine.stream(list(PROMPT), LONG) as stream:
                async for delta in stream:
                    ids += delta.token_ids
                    if ids and not killed:
                        killed.extend(rank_pids(os.getpid()))
                        os.kill(killed[0], signal.SIGKILL)
            assert ids == alone
            # If the first was quicker than the kill, the second meets the dead rank.
            second = await engine.generate(list(PROMPT), LONG)
            assert list(second.token_ids) == alone
            await engine.wait_idle()
            assert engine.stats().core.restarts == 1
            await aftermath.settle(engine)

    alone: list[int] = []
    aftermath.run(one_rank)
    aftermath.run(two_ranks)
    assert len(killed) == 1


REFUSES = """
import socket, sys
from legato.gpu.parallel.line import Line
from legato.gpu.parallel.words import ORDERS, RankFailed
from legato.protocol.errors import Failure, InvalidSetting

line = Line(socket.socket(fileno=int(sys.argv[1])))
order = line.receive(ORDERS)
line.send(RankFailed(Failure.of(InvalidSetting(f"no room on rank {order.rank}"))))
"""


def test_what_a_rank_cannot_do_is_told_in_its_own_words(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(crew, "RANK", ["-c", REFUSES])
    before = set(psutil.Process().children())
    with pytest.raises(InvalidSetting, match="no room on rank 1"):
        model(tiny, 2).build()
    assert set(psutil.Process().children()) <= before
    assert not list(tmp_path.glob("legato-*"))


def test_a_rank_that_dies_at_once_is_told_with_how(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "RANK", ["-c", "raise SystemExit(7)"])
    with pytest.raises(EngineFailed, match="rank 1 left with exit code 7"):
        model(tiny, 2).build()


def test_a_model_that_does_not_divide_starts_no_process(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(crew, "Member", start)
    with pytest.raises(InvalidSetting, match="choose 1 or 2"):
        model(tiny, 3).build()


@pytest.mark.model
def test_the_embedded_model_divides_among_three_but_not_two(smollm2: Path) -> None:
    with pytest.raises(InvalidSetting, match="choose 1 or 3"):
        model(str(smollm2), 2).build()
