from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.sampling import SampleRow, SlotWishes, sampler
from legato.gpu.sampling.sampler import likeliest
from legato.protocol.steps import RowSampling, SampledToken, StepResult

CPU = torch.device("cpu")


def row(
    wants: RowSampling,
    *,
    output: int = 0,
    prompt: int = 1,
    history: tuple[int, ...] = (),
    vocab: int = 96,
    slot: int = 0,
) -> SampleRow:
    wishes = SlotWishes(
        wants, prompt_tokens=prompt, history=history, vocab_size=vocab, device=CPU
    )
    return SampleRow(slot, output, wishes)


def sample(logits: torch.Tensor, rows: list[SampleRow]) -> tuple[SampledToken, ...]:
    told = sampler.sample(logits, rows)
    assert len(told.tokens) == len(rows)
    assert not told.logprobs.keys() & told.faults.keys()
    result = StepResult(0, tuple(told.tokens), 0, 0, told.logprobs, told.faults)
    return result.sampled


def some_logits(rows: int, vocab: int = 96, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab, generator=random) * 3


@pytest.mark.parametrize("vocab", [7, 96, 1000, 4096])
def test_the_likeliest_is_torchs_argmax(vocab: int) -> None:
    logits = some_logits(5, vocab)
    peaks, tokens = likeliest(logits)
    assert tokens.equal(logits.argmax(1))
    assert peaks.equal(logits.amax(1))


def test_of_equal_logits_the_lowest_id_wins() -> None:
    logits = torch.zeros(1, 96)
    logits[0, [40, 41, 77]] = 2.0
    assert sample(logits, [row(RowSampling(0.0))])[0].token == 40


settings_of_rows = st.builds(
    RowSampling,
    temperature=st.sampled_from([0.0, 1e-9, 0.3, 1.0, 50.0]),
    top_k=st.sampled_from([0, 1, 5, 80, 10**9]),
    top_p=st.sampled_from([1e-6, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(-(2**63), 2**64 - 1),
    logprobs=st.sampled_from([-1, 0, 3]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    logit_bias=st.sampled_from([{}, {3: 100.0, 5000: 1.0}, {4: -100.0}]),
    min_tokens=st.sampled_from([0, 4]),
    ends=st.sampled_from([(), (3, 9999)]),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(settings_of_rows, min_size=1, max_size=6), st.integers(0, 99))
@pytest.mark.slow
def test_a_token_does_not_depend_on_the_rows_beside_it(
    wants: list[RowSampling], seed: int
) -> None:
    logits = some_logits(len(wants), 2048, seed)
    make: list[Callable[[], SampleRow]] = [
        lambda want=want, slot=slot: row(
            want, slot=slot, output=slot, history=(1, 3, 3), vocab=2048
        )
        for slot, want in enumerate(wants)
    ]
    together = sample(logits.clone(), [one() for one in make])
    for index, one in enumerate(make):
        assert sample(logits[index : index + 1].clone(), [one()])[0] == together[index]


def allowed(logits: torch.Tensor, want: RowSampling) -> dict[int, float]:
    """Tokens and probabilities, filter after filter: min-p, top-k, top-p."""
    shares = (logits.double() / want.temperature).softmax(0).tolist()
    best = max(shares)
    left = {t: p for t, p in enumerate(shares) if p >= want.min_p * best}
    ranked = sorted(left, key=lambda token: -left[token])
    ranked = ranked[: want.top_k or None]
    mass, total, kept = 0.0, sum(left[token] for token in ranked), []
    for token in ranked:
        if mass < want.top_p * total:
            kept.append(token)
        mass += left[token]
    total = sum(left[token] for token in kept)
    return {token: left[token] / total for token in kept}


@pytest.mark.slow
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"top_k": 4},
        {"top_p": 0.7},
        {"min_p": 0.15},
        {"top_k": 6, "top_p": 0.8, "min_p": 0.05},
        {"top_k": 90, "top_p": 0.999, "temperature": 3.0},
    ],
)
def test_tokens_come_as_often_as_they_are_likely(filters: dict[str, Any]) -> None:
    want = RowSampling(**{"temperature": 1.2} | filters)
    logits = some_logits(1, 128, seed=5)
    shares = allowed(logits[0], want)
    rows = [row(want, output=n, vocab=128) for n in range(6000)]
    drawn = Counter(one.token for one in sample(logits.repeat(6000, 1), rows))
    assert set(drawn) <= set(shares)
    for token, share in shares.items():
        deviation = (share * (1 - share) / 6000) ** 0.5
        assert abs(drawn[token] / 6000 - share) < 4.5 * deviation + 1e-3


def test_a_flat_distribution_is_searched_as_wide_as_it_must_be() -> None:
    want = RowSampling(1.0, top_p=0.9)
    rows = [row(want, output=n, vocab=4096) for n in range(64)]
    tokens = [one.token for one in sample(torch.zeros(64, 4096), rows)]
    assert len(set(tokens)) > 50
    assert max(tokens) > 1024


def test_top_p_is_a_share_of_the_top_k() -> None:
    # Two tokens are half of the 80 likeliest, but less than half of all.
    logits = torch.full((1, 4096), -20.0)
    logits[0, :80], logits[0, [5, 6]] = 0.0, 3.8
    logits[0, 80:] = -3.5
    want = RowSampling(1.0, top_k=80, top_p=0.5)
    rows = [row(want, output=n, vocab=4096) for n in range(300)]
    tokens = {one.token for one in sample(logits.repeat(300, 1), rows)}
    assert tokens == {5, 6}


def test_a_seed_and_an_output_number_fix_the_token() -> None:
    logits = some_logits(1)
    first = [row(RowSampling(5.0, seed=11), output=n) for n in range(40)]
    again = [row(RowSampling(5.0, seed=11), output=n) for n in range(40)]
    other = [row(RowSampling(5.0, seed=12), output=n) for n in range(40)]
    tokens = [
        [one.token for one in sample(logits.repeat(40, 1), rows)]
        for rows in (first, again, other)
    ]
    assert tokens[0] == tokens[1] != tokens[2]
    assert len(set(tokens[0])) > 10


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_faults_alone(
    temperature: float, value: float
) -> None:
    logits = some_logits(3)
    want = RowSampling(temperature, top_p=0.9, logprobs=2, presence_penalty=1.0)
    good = sample(logits[[0, 2]], [row(want), row(want)])
    logits[1, 50] = value
    told = sample(logits, [row(want) for _ in range(3)])
    assert "not finite" in told[1].fault
    assert told[1].logprobs is None
    assert (told[0], told[2]) == good


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_nothing_left_faults(temperature: float) -> None:
    want = RowSampling(temperature, min_tokens=3, ends=tuple(range(96)))
    told = sample(some_logits(1), [row(want, output=2)])
    assert "no token is left" in told[0].fault
    assert not sample(some_logits(1), [row(want, output=3)])[0].fault


@pytest.mark.parametrize(
    "wants",
    [
        RowSampling(0.0, logit_bias={7: 1e39}),
        RowSampling(0.0, logit_bias={7: 10**400}),
        RowSampling(float("inf")),
        RowSampling(1.0, frequency_penalty=1e300),
        RowSampling(1.0, repetition_penalty=float("nan")),
    ],
    ids=["bias", "whole-bias", "temperature", "frequency", "repetition"],
)
def test_a_row_whose_numbers_float32_does_not_hold_faults_alone(
    wants: RowSampling,
) -> None:
    plain = RowSampling(1.0, seed=4)
    rows = [row(plain, slot=1), row(wants, slot=2, history=(1, 3))]
    told = sample(some_logits(2), rows)
    assert "float32" in told[1].fault
    assert told[0] == sample(some_logits(2)[:1], [row(plain, slot=1)])[0]


def test_a_bias_of_whole_numbers_is_added() -> None:
    logits = torch.zeros(1, 96)
    told = sample(logits, [row(RowSampling(0.0, logit_bias={7: 2, 8: 3}))])
    assert (told[0].token, told[0].fault) == (8, "")
    assert logits[0, 7] == 2


def test_logprobs_are_the_models_own() -> None:
    logits = some_logits(2)
    exact = logits.double().log_softmax(1)
    want = RowSampling(0.0, logprobs=4, logit_bias={7: 100.0})
    told = sample(logits.clone(), [row(RowSampling(1.0)), row(want)])
    assert told[0].logprobs is None
    report = told[1].logprobs
    assert report is not None
    assert told[1].token == 7
    assert report.chosen == pytest.approx(float(exact[1, 7]), abs=1e-5)
    assert list(report.ids) == exact[1].topk(4).indices.tolist()
    assert list(report.values) == pytest.approx(exact[1].topk(4).values.tolist(), 1e-5)


def test_penalties_do_what_they_say() -> None:
    logits = some_logits(1)
    want = RowSampling(
        0.0, presence_penalty=0.5, frequency_penalty=0.25, repetition_penalty=2.0
    )
    wishes = row(want, prompt=2, history=(5, 6, 8, 8)).wishes
    wishes.note(9)
    got = logits[0].clone()
    wishes.adjust(got, 0)
    expected = logits[0].clone()
    for token in (5, 6, 8, 9):
        value = expected[token]
        expected[token] = value / 2 if value > 0 else value * 2
    expected[8] -= 0.5 + 2 * 0.25
    expected[9] -= 0.5 + 0.25
    torch.testing.assert_close(got, expected)


def test_a_penalized_token_is_counted_as_it_is_sampled() -> None:
    logits = torch.zeros(1, 96)
    logits[0, 10], logits[0, 20] = 3.0, 2.0
    one = row(RowSampling(0.0, presence_penalty=2.0))
    tokens = [sample(logits.clone(), [one])[0].token for _ in range(4)]
    assert tokens == [10, 20, 10, 10]


def test_ends_wait_for_min_tokens() -> None:
    logits = torch.zeros(1, 96)
    logits[0, 10] = 5.0
    want = RowSampling(0.0, min_tokens=2, ends=(10, 9999))
    tokens = [sample(logits.clone(), [row(want, output=n)])[0].token for n in range(3)]
    assert tokens == [0, 0, 10]
