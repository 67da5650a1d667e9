"""Decodes in one call say what they say step by step through torch."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.native import Kernels, load_kernels
from legato.gpu.native_decodes import NativeDecodes
from legato.gpu.settings import RunnerSettings
from legato.gpu.torch_runner import TorchRunner
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepRow

GREEDY = RowSampling(0.0)
EMBEDDINGS: dict[str, tuple[dict[str, Any], torch.dtype]] = {
    "rounded head": ({}, torch.float32),
    "floats": ({"tied_embeddings": False}, torch.float32),
    "halves": ({"tied_embeddings": False}, torch.float16),
    "upper halves": ({"tied_embeddings": False}, torch.bfloat16),
}


@pytest.fixture
def build(
    tmp_path: Path,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Callable[..., Path],
) -> Callable[..., TorchRunner]:
    if not isinstance(load_kernels(), Kernels):
        pytest.skip("no C++ compiler")

    def of(embedding: str = "rounded head", **spoilt: float) -> TorchRunner:
        change, dtype = EMBEDDINGS[embedding]
        config = replace(tiny_config, **change)
        parameters = random_parameters(config)
        table = parameters["model.embed_tokens.weight"].to(dtype)
        table[7] *= spoilt.get("seven", 1.0)
        parameters["model.embed_tokens.weight"] = table
        if not config.tied_embeddings:
            parameters["lm_head.weight"] *= spoilt.get("head", 1.0)
        folder = write_directory(tmp_path / embedding, config, parameters)
        settings = RunnerSettings(device="cpu", num_slots=4, page_size=4, dtype="int8")
        runner = build_runner(open_checkpoint(str(folder)), settings)
        assert isinstance(runner, TorchRunner)
        return runner

    return of


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each step, whether it was one call."""
    steps: list[bool] = []
    run = NativeDecodes.run

    def noting(decodes: NativeDecodes, plan: StepPlan) -> Any:
        sampled = run(decodes, plan)
        steps.append(sampled is not None)
        return sampled

    monkeypatch.setattr(NativeDecodes, "run", noting)
    return steps


def lines(theatre: SimpleNamespace, *wishes: RowSampling) -> list[Any]:
    prompts = [tuple(range(2, 30)), tuple(range(60, 71)), (5,)]
    return [
        theatre.Line(prompt, want, 6 + 7 * slot, slot)
        for slot, (prompt, want) in enumerate(zip(prompts, wishes, strict=True))
    ]


@pytest.mark.parametrize("embedding", list(EMBEDDINGS))
def test_answers_are_those_of_steps_through_torch(
    build: Callable[..., TorchRunner],
    theatre: SimpleNamespace,
    taken: list[bool],
    embedding: str,
) -> None:
    runner = build(embedding)
    stage = theatre.Stage(runner, chunk=9)
    got = stage.play(lines(theatre, *[GREEDY] * 3))
    assert sum(taken) >= 15
    # Slots change hands, and there is something else between.
    again = theatre.Stage(runner, chunk=9, seed=1)
    assert again.play(lines(theatre, *[GREEDY] * 3)) == got
    runner._decodes = None
    assert theatre.Stage(runner).play(lines(theatre, *[GREEDY] * 3)) == got


DRAWS = (
    RowSampling(0.9, seed=5),
    RowSampling(1.4, top_p=0.8, top_k=20, seed=-(2**63)),
    RowSampling(0.7, min_p=0.1, seed=2**63 - 1),
)


def test_what_is_drawn_does_not_depend_on_who_is_beside_it(
    build: Callable[..., TorchRunner], theatre: SimpleNamespace, taken: list[bool]
) -> None:
    runner = build()
    got = theatre.Stage(runner).play(lines(theatre, *DRAWS))
    assert sum(taken) >= 15
    # One that reports keeps all steps from being one call.
    reporting = theatre.Line((9, 8, 7), RowSampling(0.0, logprobs=2), 40, 3)
    taken.clear()
    together = theatre.Stage(runner).play([*lines(theatre, *DRAWS), reporting])
    assert not any(taken)
    assert together[:3] == got
    assert got != theatre.Stage(runner).play(lines(theatre, *[GREEDY] * 3))


def test_who_wants_more_than_the_likeliest_gets_it(
    build: Callable[..., TorchRunner], theatre: SimpleNamespace, taken: list[bool]
) -> None:
    runner = build()
    want = theatre.Stage(runner).play(lines(theatre, *[GREEDY] * 3))
    assert any(taken)
    reporting = RowSampling(0.0, logprobs=2)
    played = lines(theatre, GREEDY, GREEDY, reporting)
    taken.clear()
    assert theatre.Stage(runner).play(played) == want
    assert not any(taken)
    assert all(one.logprobs is not None for one in played[2].sampled)


def opened(slot: int, sampling: RowSampling, pages: tuple[int, ...]) -> StepPlan:
    row = StepRow(slot, 0, (4, 9), True)
    return StepPlan(0, (row,), (SlotOpen(slot, sampling, 2, pages),))


def test_a_slot_that_changed_hands_is_asked_again(
    build: Callable[..., TorchRunner], taken: list[bool]
) -> None:
    runner = build()
    decodes = (0,)
    runner.launch(opened(0, GREEDY, (3, 4)))
    greedy = runner.launch(StepPlan(1, (), decodes=decodes)).wait()
    bias = RowSampling(0.0, logit_bias={greedy.tokens[0]: -100})
    runner.launch(opened(0, bias, (3, 4)))
    bound = runner.launch(StepPlan(3, (), decodes=decodes)).wait()
    assert taken == [False, True, False, False]
    assert bound.tokens != greedy.tokens


def test_a_row_without_a_page_is_refused_and_nothing_is_done(
    build: Callable[..., TorchRunner],
) -> None:
    runner = build()
    runner.launch(opened(0, GREEDY, (3,)))
    runner.launch(opened(2, GREEDY, (5, 6)))
    for step in (2, 3):
        runner.launch(StepPlan(step, (), decodes=(2, 0)))
    with pytest.raises(ValueError, match="slot 0 computes positions 4 to 5, but has 1"):
        runner.launch(StepPlan(4, (), decodes=(2, 0)))
    assert runner._slots.tables.ends[[0, 2]].tolist() == [4, 4]
    grown = StepPlan(5, (), decodes=(2, 0), grown=((0, 9),))
    assert len(runner.launch(grown).wait().tokens) == 2


def test_a_row_whose_numbers_break_faults_alone(
    build: Callable[..., TorchRunner], taken: list[bool]
) -> None:
    runner = build("floats", seven=float("nan"))
    runner.launch(opened(0, GREEDY, (3, 4)))
    runner.launch(opened(1, GREEDY, (5, 6)))
    runner._slots.future[1] = 7
    result = runner.launch(StepPlan(2, (), decodes=(0, 1))).wait()
    assert taken[-1]
    assert result.faults == {1: "the model's logits are not finite"}


def test_the_first_of_equal_logits_is_taken(
    build: Callable[..., TorchRunner],
) -> None:
    runner = build("floats", head=0.0)
    runner.launch(opened(0, GREEDY, (3, 4)))
    assert runner.launch(StepPlan(1, (), decodes=(0,))).wait().tokens == (0,)
