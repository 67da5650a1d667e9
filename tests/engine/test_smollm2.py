"""The embedded model through the whole engine."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from legato import ChatMessage, Engine, SamplingParams
from legato.actors.scheduling.batching import Continuous, Dynamic

pytestmark = [pytest.mark.model, pytest.mark.slow]

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "golden" / "smollm2.json").read_text()
)["chat_cases"]
README = Path(__file__).parents[2] / "README.md"
NEAR_TIE = 1e-3
TOKENS = 16  # of each case; the execution room's own tests go to the end


def agrees_to(ids: tuple[int, ...], case: dict[str, Any], count: int) -> bool:
    """Equal up to the first step whose two best tokens are all but even."""
    for token, step in zip(ids, case["steps"], strict=False):
        if step["gap"] < NEAR_TIE:
            return token in (step["top"][0][0], step["top"][1][0])
        if token != step["id"]:
            return False
    return len(ids) == count


def test_every_golden_conversation_at_once_gives_the_reference_answers(smollm2: Path):
    async def main() -> None:
        async with Engine(
            str(smollm2), dtype="float32", max_context=2048, max_step_tokens=128
        ) as engine:

            async def one(case: dict[str, Any]) -> None:
                messages = [ChatMessage(**m) for m in case["messages"]]
                params = SamplingParams(temperature=0, max_tokens=TOKENS)
                answer = await engine.generate(messages, params)
                assert answer.usage.prompt_tokens == len(case["prompt_ids"])
                count = min(TOKENS, len(case["output_ids"]))
                assert agrees_to(answer.token_ids, case, count), case["name"]

            async with asyncio.TaskGroup() as group:
                for case in CASES:
                    group.create_task(one(case))
            await engine.wait_idle()
            core = engine.stats().core
            assert core.pages_used == 0
            assert core.pages_free + core.pages_cached == core.pages_total

    asyncio.run(main())


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_the_question_of_the_readme_is_answered_right(smollm2: Path, dtype: str):
    case = next(case for case in CASES if case["name"] == "capital")
    (message,) = case["messages"]
    assert message["content"] in README.read_text("utf-8")

    async def main() -> None:
        async with Engine(str(smollm2), dtype=dtype, max_context=512) as engine:
            params = SamplingParams(temperature=0, max_tokens=24)
            answer = await engine.generate([ChatMessage(**message)], params)
            assert "Paris" in answer.text
            assert answer.finish_reason == "stop"
            if dtype != "bfloat16":
                assert answer.token_ids == tuple(case["output_ids"])

    asyncio.run(main())


def test_a_seeded_answer_depends_on_the_request_alone(smollm2: Path):
    async def main() -> None:
        async with Engine(str(smollm2), dtype="float32", max_context=1024) as engine:
            params = SamplingParams(temperature=0.9, seed=42, max_tokens=12)
            ask = "Write one sentence about the sea."
            messages = [ChatMessage("user", ask)]
            alone = await engine.generate(messages, params)
            others = [
                engine.generate(f"Number {n} is", SamplingParams(max_tokens=12))
                for n in range(3)
            ]
            together, *_ = await asyncio.gather(
                engine.generate(messages, params), *others
            )
            assert together.token_ids == alone.token_ids

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [
        {"prefix_cache": False},
        {"max_step_tokens": 16},
        {"num_slots": 2},
        {"kv_bytes": 16 * 737_280},  # 16 pages: two sequences, and hardly a third
        {"placement": "process"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_greedy_answers_are_the_same_however_they_are_run(
    smollm2: Path, options: dict[str, Any]
):
    """Cached, chunked, queued, preempted, in another process, under every strategy."""

    async def main() -> None:
        async with Engine(
            str(smollm2), dtype="float32", max_context=128, **options
        ) as engine:
            cases = [case for case in CASES if len(case["prompt_ids"]) < 60][:5]
            params = SamplingParams(temperature=0, max_tokens=8)

            async def one(case: dict[str, Any]) -> None:
                messages = [ChatMessage(**m) for m in case["messages"]]
                answer = await engine.generate(messages, params)
                count = min(8, len(case["output_ids"]))
                assert agrees_to(answer.token_ids, case, count), case["name"]

            for batching in (Continuous(), Dynamic(max_batch=2), Continuous()):
                engine.set_batching(batching)
                async with asyncio.TaskGroup() as group:
                    for case in cases:
                        group.create_task(one(case))
            await engine.wait_idle()
            core = engine.stats().core
            assert core.pages_used == 0
            assert core.cached_tokens > 0 or not options.get("prefix_cache", True)

    asyncio.run(main())


def test_a_silent_request_takes_the_sampling_its_makers_recommend(smollm2: Path):
    async def main() -> None:
        async with Engine("smollm2", dtype="float32", max_context=256) as engine:
            assert engine.params().temperature == 0.2
            assert engine.params().top_p == 0.9
            assert engine.params(temperature=0).temperature == 0

    asyncio.run(main())
