"""Answers of a set form, through the whole engine."""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato import (
    CallBegun,
    CallPiece,
    ChatMessage,
    Conversation,
    Engine,
    FakeModel,
    FinishReason,
    Grammar,
    InvalidRequest,
    SamplingParams,
    Tool,
    ToolUse,
)
from legato.actors.core_process import ProcessCore
from legato.gpu.fake import FAKE_LIMITS, FakeRunner, fake_answer

Play = Callable[..., None]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "born": {"type": "integer", "minimum": 0, "maximum": 9999},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "born", "tags"],
    "additionalProperties": False,
}


def bound(grammar: Grammar, **options: Any) -> SamplingParams:
    return SamplingParams(temperature=0, grammar=grammar, **options)


@pytest.mark.slow
def test_structure_holds_in_both_placements_beside_free_answers(play_placed: Play):
    async def body(engine: Engine) -> None:
        params = bound(Grammar.json_schema(PERSON), max_tokens=400)
        free = SamplingParams(temperature=0, max_tokens=60)
        prompts = [tuple(f"prompt {n}".encode()) for n in range(6)]
        asked = [engine.generate(p, q) for p in prompts for q in (params, free)]
        answers = await asyncio.gather(*asked)
        for prompt, one, other in zip(
            prompts, answers[::2], answers[1::2], strict=True
        ):
            jsonschema.validate(json.loads(one.text), PERSON)
            assert one.finish_reason is FinishReason.STOP
            assert other.token_ids == fake_answer(prompt, 60)
        await engine.wait_idle()
        assert engine.stats().core.pages_used == 0

    play_placed(body)


def test_a_grammar_that_does_not_compile_fails_one_request(play: Play):
    async def body(engine: Engine) -> None:
        broken = bound(Grammar.json_schema('{"type": "strin"}'))
        good = bound(Grammar.regex("[ab]{20}"))
        answers = await asyncio.gather(
            engine.generate("one", good),
            engine.generate("two", broken),
            engine.generate("three", good),
            return_exceptions=True,
        )
        assert isinstance(answers[1], InvalidRequest)
        assert answers[1].field == "grammar"
        assert "Invalid type: strin" in str(answers[1])
        for answer in (answers[0], answers[2]):
            assert not isinstance(answer, BaseException)
            assert set(answer.text) <= {"a", "b"}
            assert len(answer.text) == 20
        assert engine.stats().core.restarts == 0

    play(body)


def test_an_answer_cut_by_length_says_so(play: Play):
    async def body(engine: Engine) -> None:
        params = bound(Grammar.json_schema(PERSON), max_tokens=9)
        answer = await engine.generate("hello", params)
        assert answer.finish_reason is FinishReason.LENGTH
        assert len(answer.token_ids) == 9
        assert answer.text.startswith("{")

    play(body)


def test_the_end_comes_only_where_the_form_is_complete(play: Play):
    async def body(engine: Engine) -> None:
        answer = await engine.generate("hello", bound(Grammar.regex("x{5}y?")))
        assert answer.text in ("xxxxx", "xxxxxy")
        assert answer.finish_reason is FinishReason.STOP
        assert answer.token_ids[-1] == 256

    play(body, FakeModel(script=b"xxxxx"))


@pytest.mark.slow
@pytest.mark.parametrize("fail_at", [0, 2, 30])
def test_a_device_that_dies_changes_no_token_of_a_bound_answer(
    play: Play, fail_at: int
):
    params = bound(Grammar.json_schema(PERSON), max_tokens=300)

    async def ask(engine: Engine) -> list[tuple[int, ...]]:
        prompts = [f"prompt {n}" for n in range(4)]
        answers = await asyncio.gather(*(engine.generate(p, params) for p in prompts))
        return [answer.token_ids for answer in answers]

    told: list[list[tuple[int, ...]]] = []
    for failures in ([], [fail_at]):
        steps = itertools.chain(failures, itertools.repeat(None))

        def build(steps: Any = steps) -> FakeRunner:
            return FakeRunner(fail_at=next(steps))

        async def body(engine: Engine, restarts: int = len(failures)) -> None:
            told.append(await ask(engine))
            await engine.wait_idle()  # the core's figures are then of now
            assert engine.stats().core.restarts == restarts

        play(body, FakeModel(runner=build))
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_killed_core_process_costs_a_bound_answer_no_token():
    async def main() -> None:
        params = bound(Grammar.regex("([a-z]{5} ){40}"))
        async with Engine(FakeModel(step_s=0.001), placement="process") as engine:
            whole = await engine.generate("hello", params)
            async with engine.stream("hello", params) as stream:
                first = await anext(stream)
                core = engine.core
                assert isinstance(core, ProcessCore)
                assert core._child is not None  # pyright: ignore[reportPrivateUsage]
                core._child.kill()  # pyright: ignore[reportPrivateUsage]
                rest = [delta async for delta in stream]
            text = first.text + "".join(delta.text for delta in rest)
            assert text == whole.text
            assert engine.stats().core_restarts == 1

    asyncio.run(main())


@pytest.mark.slow
def test_preemption_changes_no_token_of_a_bound_answer(play: Play):
    params = bound(Grammar.regex("([a-z]{3} ){25}"), max_tokens=120)
    told: list[list[str]] = []

    async def body(engine: Engine) -> None:
        prompts = [f"prompt {n}" for n in range(6)]
        answers = await asyncio.gather(*(engine.generate(p, params) for p in prompts))
        told.append([answer.text for answer in answers])
        counts.append(engine.stats().core.preemptions)

    counts: list[int] = []
    for num_pages in (1024, 16):
        small = msgspec.structs.replace(FAKE_LIMITS, num_pages=num_pages)
        play(body, FakeModel(limits=small))
    assert counts[0] == 0 < counts[1]
    assert told[0] == told[1]


def test_a_bound_answer_can_be_cancelled_at_once(play: Play):
    async def body(engine: Engine) -> None:
        params = bound(Grammar.regex("[a-z]{2000}"))
        for wait in (False, True):
            async with engine.stream("hello", params) as stream:
                if wait:
                    await anext(stream)
                stream.cancel()
                deltas = [delta async for delta in stream]
            assert deltas[-1].finish_reason is FinishReason.CANCELLED
        await engine.wait_idle()
        assert engine.stats().core.live == engine.stats().core.pages_used == 0

    play(body)


scalars = st.sampled_from(
    [
        {"type": "string", "maxLength": 5},
        {"type": "string", "pattern": "^[a-c]{1,4}$"},
        {"type": "integer", "minimum": -20, "maximum": 300},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["red", "blue", 3, None]},
        {"const": "fixed"},
    ]
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.builds(
        lambda items, low: {
            "type": "array",
            "items": items,
            "minItems": low,
            "maxItems": low + 2,
        },
        inner,
        st.integers(0, 2),
    )
    names = st.text("abcdé_", min_size=1, max_size=4)
    objects = st.builds(
        lambda fields, count: {
            "type": "object",
            "properties": fields,
            "required": sorted(fields)[:count],
            "additionalProperties": False,
        },
        st.dictionaries(names, inner, max_size=3),
        st.integers(0, 3),
    )
    unions = st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1))
    return arrays | objects | unions


schemas = st.recursive(scalars, grown, max_leaves=6)


@pytest.mark.slow
def test_whatever_the_schema_a_random_model_keeps_to_it():
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(schema=schemas, prompt=st.binary(min_size=1, max_size=8))
    def check(schema: Any, prompt: bytes) -> None:
        params = bound(Grammar.json_schema(schema), max_tokens=300)
        answer = runner.run(engine.generate(tuple(prompt), params))
        if answer.finish_reason is FinishReason.LENGTH:
            assert len(answer.token_ids) == 300
        else:
            jsonschema.validate(json.loads(answer.text), schema)

    with asyncio.Runner() as runner:
        engine = Engine(FakeModel())
        runner.run(engine.__aenter__())
        try:
            check()
        finally:
            runner.run(engine.__aexit__(None, None, None))


def test_functions_are_called_and_read_without_a_server(play: Play):
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}}
    schema |= {"required": ["n"], "additionalProperties": False}
    use = ToolUse(tools=(Tool("pick", "Pick.", schema),), choice="required")
    ask = Conversation((ChatMessage("user", "Pick one."),), use)

    async def body(engine: Engine) -> None:
        parser, pieces = engine.tool_parser(), []
        params = SamplingParams(temperature=0, max_tokens=400)
        async with engine.stream(ask, params) as stream:
            async for delta in stream:
                pieces += parser.feed(delta.text)
        pieces += parser.finish()
        assert pieces[0] == CallBegun(0, "pick")
        calls = [one for one in pieces if isinstance(one, CallPiece) and not one.index]
        assert json.loads("".join(one.text for one in calls))["n"] in (1, 2)

    play(body)
