"""SmolLM2 on streams against the reference's answers: alone, batched, resumed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legato.gpu.runner import ModelRunner
from legato.protocol.steps import RowSampling, SlotOpen, StepPlan, StepRow

pytestmark = [pytest.mark.model, pytest.mark.slow]
GOLDEN = Path(__file__).parents[2] / "golden" / "smollm2.json"
# The longest would attend, row by row, to a context of thousands.
CASES: list[dict[str, Any]] = [
    case
    for case in json.loads(GOLDEN.read_text("utf-8"))["chat_cases"]
    if len(case["prompt_ids"]) + len(case["output_ids"]) <= 160
]
NEAR_TIE = 1e-3
GREEDY = RowSampling(0.0)


@pytest.fixture(
    scope="module", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)]
)
def runner(
    request: pytest.FixtureRequest,
    smollm2: Path,
    stream_devices: dict[str, Callable[[], Any]],
    build_on: Callable[..., ModelRunner],
) -> Iterator[ModelRunner]:
    made = build_on(
        stream_devices[request.param](),
        smollm2,
        page_size=16,
        num_slots=4,
        max_context=160,
        max_step_tokens=64,
    )
    yield made
    made.close()


def tokens_of(case: dict[str, Any], most: int) -> list[int]:
    """The reference's answer, up to where it nearly ties."""
    ties = (n for n, step in enumerate(case["steps"]) if step["gap"] < NEAR_TIE)
    return case["output_ids"][: min(most, next(ties, most))]


def test_answers_alone_are_the_references(
    runner: ModelRunner, theatre: SimpleNamespace
) -> None:
    case = CASES[0]
    line = theatre.Line(tuple(case["prompt_ids"]), GREEDY, 16, 2)
    theatre.Stage(runner).play([line])
    wanted = tokens_of(case, 16)
    assert wanted
    assert line.tokens[: len(wanted)] == wanted


def test_answers_in_a_batch_with_chunked_prompts_are_the_references(
    runner: ModelRunner, theatre: SimpleNamespace
) -> None:
    lines = [
        theatre.Line(tuple(case["prompt_ids"]), GREEDY, 8, slot)
        for slot, case in enumerate(CASES[:4])
    ]
    theatre.Stage(runner, chunk=13).play(lines)
    for case, line in zip(CASES, lines, strict=False):
        wanted = tokens_of(case, 8)
        assert line.tokens[: len(wanted)] == wanted


def test_an_answer_that_was_interrupted_goes_on_as_the_references(
    runner: ModelRunner,
) -> None:
    case = CASES[0]
    wanted = tokens_of(case, 8)
    again = (*case["prompt_ids"], *wanted[:4])
    pages = tuple(range(20, 30))
    opened = SlotOpen(3, GREEDY, len(case["prompt_ids"]), pages)
    first, rest = again[:64], again[64:]
    rows = [StepRow(3, 0, first, not rest)]
    rows += [StepRow(3, 64, rest, True)] if rest else []
    handles = [
        runner.launch(StepPlan(n, (row,), (opened,) if n == 0 else ()))
        for n, row in enumerate(rows)
    ]
    tokens = [token for handle in handles for token in handle.wait().tokens]
    for step in range(2, 2 + len(wanted) - 5):
        tokens += runner.launch(StepPlan(step, (), decodes=(3,))).wait().tokens
    assert tokens == wanted[4:]
