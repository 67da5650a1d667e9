"""What every runner keeps to, the fake one and the real one."""

import math
import re
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.cuda import Device
from legato.gpu.fake import FakeRunner, advance, fake_score
from legato.gpu.grammar import Grammars, Spelling
from legato.gpu.native import Kernels, load_kernels
from legato.gpu.runner import ModelRunner
from legato.gpu.settings import RunnerSettings
from legato.protocol.grammar import Grammar
from legato.protocol.steps import (
    RowSampling,
    RunnerLimits,
    SlotOpen,
    StepPlan,
    StepRow,
    TokenLogprobs,
)

GREEDY = RowSampling(0.0)
PROMPT = tuple(range(2, 39))
LIMITS = RunnerLimits(
    num_slots=8,
    num_pages=64,
    page_size=4,
    max_context=128,
    max_step_tokens=48,
    vocab_size=96,
    page_bytes=0,
)


LETTERS = ' \n"{}[]:,.-0123456789abcdefghijklmnopqrstuvwxyzE+'
END = 90


def spell() -> Spelling:
    """One token a character, and an end."""
    tokens = [letter.encode() for letter in LETTERS]
    tokens += [b""] * (LIMITS.vocab_size - len(tokens))
    return Spelling(tokens, {END: "<end>"}, (END,), lambda text: ())


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(spell)


def words(tokens: list[int]) -> str:
    return "".join("$" if token == END else LETTERS[token] for token in tokens)


@pytest.fixture(scope="module")
def tiny_file(
    tmp_path_factory: pytest.TempPathFactory,
    write_directory: Callable[..., Path],
    random_parameters: Callable[..., Any],
    tiny_config: ModelConfig,
) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    return write_directory(folder, tiny_config, random_parameters())


# Devices to queue steps on.
STREAMS = ("host", "late", "cuda")
DENSE_PAGE_BYTES = 2 * 4 * 2 * 4 * 2 * 16


@pytest.fixture(scope="module")
def stream_runner(
    tiny_file: Path,
    stream_devices: dict[str, Callable[[], Device]],
    build_on: Callable[..., ModelRunner],
) -> Iterator[Callable[[str], ModelRunner]]:
    """A runner on a device, made again only once it is closed: capturing takes time."""
    made: dict[str, Any] = {}

    def of(name: str) -> ModelRunner:
        if name not in made or made[name]._machine is None:
            made[name] = build_on(
                stream_devices[name](),
                tiny_file,
                page_size=LIMITS.page_size,
                num_slots=LIMITS.num_slots,
                max_context=LIMITS.max_context,
                max_step_tokens=LIMITS.max_step_tokens,
                kv_bytes=LIMITS.num_pages * DENSE_PAGE_BYTES,
            )
        return made[name]

    yield of
    for runner in made.values():
        runner.close()


@pytest.fixture(
    params=[
        *("fake", "reference", "paged", "native", "int8", "host"),
        pytest.param("late", marks=pytest.mark.slow),
        pytest.param("ranks", marks=pytest.mark.slow),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ]
)
def runner(
    request: pytest.FixtureRequest,
    tiny_file: Path,
    grammars: Grammars,
    stream_runner: Callable[[str], ModelRunner],
    threaded_ranks: Callable[..., ModelRunner],
) -> Iterator[ModelRunner]:
    if request.param == "fake":
        made: ModelRunner = FakeRunner(LIMITS)
    elif request.param in STREAMS:
        made = stream_runner(request.param)
    else:
        checkpoint = open_checkpoint(str(tiny_file))
        page_bytes = DENSE_PAGE_BYTES
        if request.param == "int8" and isinstance(load_kernels(), Kernels):
            page_bytes //= 2
        ranks = 2 if request.param == "ranks" else 1
        page_bytes //= ranks
        settings = RunnerSettings(
            device="cpu",
            dtype="int8" if request.param == "int8" else "float32",
            attention="auto" if request.param in ("int8", "ranks") else request.param,
            tensor_parallel=ranks,
            page_size=LIMITS.page_size,
            num_slots=LIMITS.num_slots,
            max_context=LIMITS.max_context,
            max_step_tokens=LIMITS.max_step_tokens,
            kv_bytes=LIMITS.num_pages * page_bytes,
        )
        build = threaded_ranks if ranks > 1 else build_runner
        made = build(checkpoint, settings)
        checkpoint.close()
    made.equip(grammars)
    yield made
    if request.param not in STREAMS:
        made.close()


@pytest.fixture
def alone(runner: ModelRunner, theatre: SimpleNamespace) -> list[int]:
    """What the prompt's answer is, undisturbed."""
    return theatre.Stage(runner).play([theatre.Line(PROMPT, GREEDY, 12, 0)])[0]


def test_limits_are_stated(runner: ModelRunner) -> None:
    limits = runner.limits
    assert (limits.num_slots, limits.num_pages, limits.page_size) == (8, 64, 4)
    assert (limits.max_context, limits.max_step_tokens, limits.vocab_size) == (
        *(128, 48),
        96,
    )
    assert runner.launch_depth >= 1
    assert "\n" not in runner.memory_report


def test_a_result_carries_the_plans_number_and_its_times(runner: ModelRunner) -> None:
    opened = SlotOpen(3, GREEDY, 2, (5,))
    plan = StepPlan(17, (StepRow(3, 0, (4, 9), True),), (opened,))
    result = runner.launch(plan).wait()
    assert result.step == 17
    assert 0 < result.started_s <= result.finished_s
    assert len(result.sampled) == len(result.tokens) == 1
    assert not result.sampled[0].fault


def test_the_answer_is_the_same_in_a_batch(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int]
) -> None:
    prompts = [PROMPT[shift:] for shift in (0, 3, 11, 20)]
    lines = [theatre.Line(p, GREEDY, 12, slot) for slot, p in enumerate(prompts, 2)]
    assert theatre.Stage(runner, seed=1).play(lines)[0] == alone


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_the_answer_is_the_same_in_chunks(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int], chunk: int
) -> None:
    stage = theatre.Stage(runner, chunk=chunk, seed=2)
    other = theatre.Line(PROMPT[::-1], GREEDY, 9, 7)
    assert stage.play([other, theatre.Line(PROMPT, GREEDY, 12, 1)])[1] == alone


def test_the_answer_is_the_same_when_resumed_in_another_slot(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int]
) -> None:
    said = tuple(alone[:5])
    opened = SlotOpen(6, GREEDY, len(PROMPT), tuple(range(20, 36)))
    again = PROMPT + said
    plan = StepPlan(0, (StepRow(6, 0, again, True),), (opened,))
    tokens = [runner.launch(plan).wait().sampled[0].token]
    for step in range(1, 7):
        plan = StepPlan(step, (), decodes=(6,))
        tokens += runner.launch(plan).wait().tokens
    assert tokens == alone[5:]


def test_decodes_stand_before_rows_in_a_step(
    runner: ModelRunner, alone: list[int]
) -> None:
    first = SlotOpen(5, GREEDY, len(PROMPT), tuple(range(10)))
    runner.launch(StepPlan(0, (StepRow(5, 0, PROMPT, True),), (first,))).wait()
    second = SlotOpen(2, GREEDY, len(PROMPT), tuple(range(10, 20)))
    row = StepRow(2, 0, PROMPT, True)
    result = runner.launch(StepPlan(1, (row,), (second,), decodes=(5,))).wait()
    assert result.tokens == (alone[1], alone[0])
    both = runner.launch(StepPlan(2, (), decodes=(2, 5))).wait()
    assert both.tokens == (alone[1], alone[2])


def test_a_decode_grows_by_a_page(runner: ModelRunner, alone: list[int]) -> None:
    opened = SlotOpen(5, GREEDY, len(PROMPT), tuple(range(10)))
    runner.launch(StepPlan(0, (StepRow(5, 0, PROMPT, True),), (opened,))).wait()
    tokens = [alone[0]]
    for step in range(1, 8):
        grown = ((5, 30),) if step == 4 else ()
        tokens += (
            runner.launch(StepPlan(step, (), decodes=(5,), grown=grown)).wait().tokens
        )
    assert tokens == alone[:8]


def test_a_given_token_is_taken_instead_of_the_future_one(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int]
) -> None:
    forced = tuple(alone)
    line = theatre.Line(PROMPT, GREEDY, 12, 4, forced=forced)
    assert theatre.Stage(runner).play([line])[0] == alone


def test_sequences_share_the_pages_of_a_common_prefix(
    runner: ModelRunner, alone: list[int]
) -> None:
    shared = tuple(range(40, 49))
    first = SlotOpen(0, GREEDY, 37, (*shared, 50))
    runner.launch(StepPlan(0, (StepRow(0, 0, PROMPT, True),), (first,))).wait()
    second = SlotOpen(1, GREEDY, 37, (*shared, 51))
    row = StepRow(1, 36, PROMPT[36:], True)
    result = runner.launch(StepPlan(1, (row,), (second,))).wait()
    assert result.sampled[0].token == alone[0]


def test_a_copied_page_holds_the_same_positions(
    runner: ModelRunner, alone: list[int]
) -> None:
    pages = tuple(range(10))
    first = SlotOpen(0, GREEDY, 37, pages)
    runner.launch(StepPlan(0, (StepRow(0, 0, PROMPT, True),), (first,))).wait()
    copies = ((9, 60), (60, 61))
    second = SlotOpen(1, GREEDY, 37, (*pages[:9], 61))
    row = StepRow(1, 36, PROMPT[36:], True)
    result = runner.launch(StepPlan(1, (row,), (second,), copies)).wait()
    assert result.sampled[0].token == alone[0]


def test_a_row_that_does_not_sample_says_nothing(runner: ModelRunner) -> None:
    opened = SlotOpen(0, GREEDY, 8, (0, 1))
    plan = StepPlan(0, (StepRow(0, 0, (1, 2, 3), False),), (opened,))
    assert runner.launch(plan).wait().sampled == ()


def test_an_empty_plan_is_a_step(runner: ModelRunner) -> None:
    assert runner.launch(StepPlan(4, ())).wait().step == 4


def test_no_end_comes_before_min_tokens(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int]
) -> None:
    ends = tuple(set(alone))
    wants = RowSampling(0.0, min_tokens=6, ends=ends)
    tokens = theatre.Stage(runner).play([theatre.Line(PROMPT, wants, 6, 0)])[0]
    assert not set(tokens) & set(ends)


def test_a_row_with_nothing_left_to_choose_from_faults_alone(
    runner: ModelRunner, alone: list[int]
) -> None:
    ends = tuple(range(LIMITS.vocab_size))
    opens = (
        SlotOpen(0, RowSampling(0.0, min_tokens=2, ends=ends), 2, (20,)),
        SlotOpen(1, GREEDY, len(PROMPT), tuple(range(10))),
    )
    rows = (StepRow(0, 0, (4, 9), True), StepRow(1, 0, PROMPT, True))
    bad, good = runner.launch(StepPlan(0, rows, opens)).wait().sampled
    assert "no token is left to choose from" in bad.fault
    assert (good.fault, good.token) == ("", alone[0])
    late = StepPlan(1, (StepRow(0, 2, (5, 6), True),))
    assert not runner.launch(late).wait().sampled[0].fault


HUGE = 10**400
ODD_SAMPLING: dict[str, tuple[Any, ...]] = {
    "temperature": (3, -1.0, 1e300, math.nan, math.inf, HUGE),
    "top_k": (-7, 2**64 - 1, HUGE),
    "top_p": (1, 0, -2.0, 1e300, math.nan, HUGE),
    "min_p": (0, 1, 7.0, 1e300, math.nan, HUGE),
    "seed": (-(2**63), 2**64 - 1, HUGE),
    "min_tokens": (-1, 2**64 - 1, HUGE),
    "ends": ((-1, HUGE), (3, 3)),
    "logprobs": (-9, 10_000, 2**64 - 1),
    "presence_penalty": (1, -1e300, math.nan, 3.4028235e38, HUGE),
    "frequency_penalty": (-1, 1e300, math.inf, 3.4028235e38, HUGE),
    "repetition_penalty": (2, 0, -1.0, 1e-320, 1e300, math.nan, HUGE),
    "logit_bias": ({3: 1}, {3: 1, 4: 0.5}, {-1: 1, HUGE: 1}, {3: HUGE}, {3: math.nan}),
}


@pytest.mark.parametrize("name", ODD_SAMPLING)
def test_no_sampling_of_the_right_types_breaks_a_step(
    runner: ModelRunner, alone: list[int], name: str
) -> None:
    plain = SlotOpen(0, GREEDY, len(PROMPT), tuple(range(10)))
    for step, value in enumerate(ODD_SAMPLING[name]):
        usual: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9}
        wants = RowSampling(**usual | {"presence_penalty": 0.5, name: value})
        odd = SlotOpen(1, wants, 1, (20,), (4, 9))
        rows = (StepRow(0, 0, PROMPT, True), StepRow(1, 0, (4, 9), True))
        result = runner.launch(StepPlan(step, rows, (plain, odd))).wait()
        assert (result.sampled[0].fault, result.sampled[0].token) == ("", alone[0])
        assert result.sampled[1].fault or 0 <= result.sampled[1].token < 96


def test_logprobs_come_as_asked(runner: ModelRunner, theatre: SimpleNamespace) -> None:
    lines = [
        theatre.Line(PROMPT, RowSampling(0.0, logprobs=3), 2, 0),
        theatre.Line(PROMPT, RowSampling(0.0, logprobs=0), 2, 1),
        theatre.Line(PROMPT, GREEDY, 2, 2),
    ]
    theatre.Stage(runner).play(lines)
    three, zero, none = (line.sampled[0].logprobs for line in lines)
    assert three is not None
    assert len(three.ids) == len(three.values) == 3
    assert three.ids[0] == lines[0].tokens[0]
    assert three.chosen == three.values[0]
    assert zero is not None
    assert zero.ids == ()
    assert none is None


BOUND = [
    Grammar.regex("ab*c{3}"),
    Grammar.json_schema({"enum": ["up", "down", 17]}),
    Grammar.lark('start: "x" NUMBER "y"\nNUMBER: /[0-9]{2}/\n'),
]
PATTERNS = [r"ab*c{0,3}\$*", r'("(up|down)?"?|1?7?)\$*', r"x[0-9]{0,2}y?\$*"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_grammar_binds_its_slot_alone(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int], temperature: float
) -> None:
    lines = [theatre.Line(PROMPT, GREEDY, 12, 0)]
    for slot, grammar in enumerate(BOUND, 1):
        wants = RowSampling(temperature, seed=5, grammar=grammar)
        lines.append(theatre.Line(PROMPT[slot:], wants, 12, slot))
    told = theatre.Stage(runner, chunk=7).play(lines)
    assert told[0] == alone
    for tokens, pattern in zip(told[1:], PATTERNS, strict=True):
        assert re.fullmatch(pattern, words(tokens)), words(tokens)


def test_only_the_end_comes_where_a_grammar_ends(
    runner: ModelRunner, theatre: SimpleNamespace
) -> None:
    wants = RowSampling(1.0, grammar=Grammar.regex("abc"), logprobs=2)
    line = theatre.Line(PROMPT, wants, 6, 0)
    # The step after the end was in flight before the end was known.
    assert words(theatre.Stage(runner).play([line])[0]) == "abc$$$"
    assert not any(one.fault for one in line.sampled)
    assert all(one.logprobs is not None for one in line.sampled)


def test_a_grammar_goes_on_when_resumed_in_another_slot(
    runner: ModelRunner, theatre: SimpleNamespace
) -> None:
    wants = RowSampling(1.0, seed=3, grammar=Grammar.regex("[a-c]{4}[x-z]{4}"))
    whole = theatre.Stage(runner).play([theatre.Line(PROMPT, wants, 9, 0)])[0]
    again = (*PROMPT, *whole[:5])
    opened = SlotOpen(6, wants, len(PROMPT), tuple(range(20, 36)), again)
    plan = StepPlan(0, (StepRow(6, 0, again, True),), (opened,))
    tokens = [runner.launch(plan).wait().sampled[0].token]
    for step in range(1, 4):
        result = runner.launch(StepPlan(step, (), decodes=(6,))).wait()
        tokens.append(result.sampled[0].token)
    assert tokens == whole[5:]


def test_a_slot_forgets_its_last_grammar(
    runner: ModelRunner, theatre: SimpleNamespace, alone: list[int]
) -> None:
    wants = RowSampling(0.0, grammar=Grammar.regex("abc"))
    theatre.Stage(runner).play([theatre.Line(PROMPT, wants, 2, 3)])
    assert theatre.Stage(runner).play([theatre.Line(PROMPT, GREEDY, 12, 3)])[0] == alone


def test_more_tokens_than_a_step_may_have_are_refused(runner: ModelRunner) -> None:
    opened = SlotOpen(0, GREEDY, 60, tuple(range(20)))
    plan = StepPlan(0, (StepRow(0, 0, (1,) * 49, True),), (opened,))
    with pytest.raises(ValueError):
        runner.launch(plan)


def test_a_page_outside_the_pool_is_refused(runner: ModelRunner) -> None:
    opened = SlotOpen(0, GREEDY, 3, (64,))
    with pytest.raises(ValueError):
        runner.launch(StepPlan(0, (StepRow(0, 0, (1, 2, 3), True),), (opened,)))


def test_closing_twice_is_fine(runner: ModelRunner) -> None:
    runner.close()
    runner.close()


def scored(
    runner: ModelRunner, chunks: list[tuple[int, int]], begin: int = 0
) -> list[TokenLogprobs]:
    """Score the prompt in chunks, from one of its positions on."""
    told: list[TokenLogprobs] = []
    sampling = RowSampling(0.0, prompt_logprobs=3)
    opens = (SlotOpen(2, sampling, len(PROMPT), tuple(range(20, 30))),)
    for step, (start, end) in enumerate(chunks):
        first = max(start, begin)
        targets = PROMPT[first + 1 : end + 1]
        ends = end == len(PROMPT)
        row = StepRow(2, start, PROMPT[start:end], ends, (), targets, first - start)
        other = StepRow(4, step, (7,), False, (41,) if step == 0 else ())
        also = (SlotOpen(4, GREEDY, 9, ()),) if step == 0 else ()
        plan = StepPlan(step, (other, row), opens + also)
        result = runner.launch(plan).wait()
        assert set(result.scores) == ({1} if targets else set())
        told += result.scores.get(1, ())
        opens = ()
    return told


def known(runner: ModelRunner, end: int, target: int) -> float | None:
    """A token's log-probability after so much of the prompt, by another way.

    Runners may report less than the whole vocabulary, and so nothing of this token.
    """
    if isinstance(runner, FakeRunner):
        return fake_score(reduce(advance, PROMPT[:end], 0), target, 0).chosen
    sampling = RowSampling(0.0, logprobs=LIMITS.vocab_size)
    opened = SlotOpen(5, sampling, end, tuple(range(50, 60)))
    row = StepRow(5, 0, PROMPT[:end], True)
    result = runner.launch(StepPlan(0, (row,), (opened,))).wait()
    (one,) = result.sampled
    assert one.logprobs is not None
    return dict(zip(one.logprobs.ids, one.logprobs.values, strict=True)).get(target)


def test_a_prompts_tokens_are_scored_in_any_chunks(runner: ModelRunner) -> None:
    size = len(PROMPT)
    whole = scored(runner, [(0, size)])
    assert len(whole) == size - 1
    num_known = 0
    for at, one in enumerate(whole, 1):
        want = known(runner, at, PROMPT[at])
        if want is not None:
            assert one.chosen == pytest.approx(want, abs=1e-2), at
            num_known += 1
        assert len(one.ids) == len(one.values) == 3
        assert list(one.values) == sorted(one.values, reverse=True)
    assert num_known >= 3
    for begin, chunks in (
        (0, [(0, 5), (5, 6), (6, size)]),
        (11, [(0, 9), (9, 20), (20, size)]),
    ):
        parts = scored(runner, chunks, begin)
        assert len(parts) == size - 1 - begin
        for one, same in zip(parts, whole[begin:], strict=True):
            assert one.chosen == pytest.approx(same.chosen, abs=1e-2)


def test_many_positions_go_through_the_head_in_parts(runner: ModelRunner) -> None:
    prompt = tuple(2 + n % 90 for n in range(48))
    sampling = RowSampling(0.0, prompt_logprobs=0)
    opened = SlotOpen(1, sampling, 48, tuple(range(12)))
    row = StepRow(1, 0, prompt, True, (), prompt[1:])
    result = runner.launch(StepPlan(0, (row,), (opened,))).wait()
    assert len(result.scores[0]) == 47
    assert all(one.ids == () and one.chosen <= 0 for one in result.scores[0])
