"""Tokens that the kernels draw are those that a number in [0, 1) points to."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.gpu.assembly import build_runner
from legato.gpu.checkpoint import ModelConfig, open_checkpoint
from legato.gpu.native import Kernels, load_kernels
from legato.gpu.native_decodes import NativeDrawing
from legato.gpu.sampling import SampleRow, SlotWishes
from legato.gpu.sampling.randomness import int64, uniform
from legato.gpu.settings import RunnerSettings
from legato.gpu.torch_runner import TorchRunner
from legato.protocol.steps import RowSampling

VOCAB = 1003  # neither whole blocks nor whole vectors
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def drawing(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_config: ModelConfig,
    random_parameters: Callable[..., Any],
    write_directory: Callable[..., Path],
) -> NativeDrawing:
    if not isinstance(load_kernels(), Kernels):
        pytest.skip("no C++ compiler")
    config = replace(tiny_config, vocab_size=VOCAB)
    folder = write_directory(
        tmp_path_factory.mktemp("m") / "m", config, random_parameters(config)
    )
    runner = build_runner(
        open_checkpoint(str(folder)), RunnerSettings(device="cpu", dtype="int8")
    )
    assert isinstance(runner, TorchRunner)
    assert runner._drawing is not None
    return runner._drawing


def row(sampling: RowSampling, output: int) -> SampleRow:
    wishes = SlotWishes(
        sampling, prompt_tokens=1, history=(), vocab_size=VOCAB, device=CPU
    )
    return SampleRow(0, output, wishes)


def draw(
    drawing: NativeDrawing, logits: torch.Tensor, wants: Sequence[RowSampling]
) -> list[int]:
    rows = [row(want, output) for output, want in enumerate(wants)]
    return drawing(logits.clone(), rows, range(len(rows))).tolist()


def kept(weights: np.ndarray, want: RowSampling, slack: float) -> np.ndarray:
    """Which tokens may be drawn, in float64."""
    weights = np.where(weights >= min(want.min_p, 1) * (1 - slack), weights, 0)
    order = np.lexsort((np.arange(len(weights)), -weights))
    if 0 < want.top_k < len(weights):
        order = order[: want.top_k]
    sums = weights[order].cumsum()
    total = sums[-1]
    if want.top_p < 1:
        before = sums - weights[order]
        order = order[(before < want.top_p * total * (1 + slack)) | (before == 0)]
    mask = np.zeros(len(weights), bool)
    mask[order] = True
    return mask & (weights > 0)


def points_to(logits: np.ndarray, want: RowSampling, output: int, token: int) -> bool:
    """Whether a row's number points to a token, give or take the last bits."""
    exponents = (logits.astype(float) - logits.max()) / np.float32(want.temperature)
    weights = np.exp(exponents)
    number = float(uniform(int64([want.seed], CPU), torch.tensor([output])))
    for slack in (0, 1e-5, -1e-5):
        mask = kept(weights, want, slack)
        ends = np.where(mask, weights, 0).cumsum() / weights[mask].sum()
        start = ends[token] - weights[token] / weights[mask].sum()
        if mask[token] and start - 1e-5 <= number <= ends[token] + 1e-5:
            return True
    return False


wishes = st.builds(
    RowSampling,
    temperature=st.sampled_from([0.02, 0.3, 0.7, 1.0, 3.0, 50.0]),
    top_k=st.sampled_from([0, 0, 1, 2, 40, 1002, 1003, 5000]),
    top_p=st.sampled_from([1.0, 1.0, 1e-6, 0.1, 0.5, 0.9, 0.95, 0.999999]),
    min_p=st.sampled_from([0.0, 0.0, 1e-4, 0.05, 0.5, 1.0]),
    seed=st.integers(-(2**63), 2**63 - 1),
)


@pytest.mark.slow
@given(
    wants=st.lists(wishes, min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.0, 0.01, 1.0, 5.0, 40.0]),
    forbidden=st.sampled_from([0, 1, 500, 1002]),
)
@example([RowSampling(1.0, top_p=0.5, seed=3)] * 5, 0, 0.0, 0)
@example([RowSampling(1.0, top_k=40, top_p=0.5, seed=3)] * 5, 0, 0.0, 500)
@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_token_is_the_one_that_the_number_points_to(
    drawing: NativeDrawing,
    wants: list[RowSampling],
    seed: int,
    spread: float,
    forbidden: int,
) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(wants), VOCAB, generator=random) * spread
    logits[:, torch.randperm(VOCAB, generator=random)[:forbidden]] = -math.inf
    tokens = draw(drawing, logits, wants)
    for output, (want, token) in enumerate(zip(wants, tokens, strict=True)):
        assert points_to(logits[output].numpy(), want, output, token)


def test_each_token_comes_as_often_as_it_weighs(drawing: NativeDrawing) -> None:
    logits = torch.full((1, VOCAB), -math.inf)
    logits[0, [3, 500, 1002]] = torch.tensor([0.5, 0.3, 0.2]).log()
    wants = [RowSampling(1.0, seed=seed) for seed in range(2000)]
    tokens = draw(drawing, logits.expand(2000, -1), wants)
    shares = [tokens.count(token) / 2000 for token in (3, 500, 1002)]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


@pytest.mark.parametrize("peak", [math.nan, math.inf, -math.inf])
def test_rows_without_a_finite_peak_get_any_token(
    drawing: NativeDrawing, peak: float
) -> None:
    logits = torch.full((1, VOCAB), -math.inf)
    logits[0, 5] = peak
    wants = [RowSampling(1.0, top_k=4, top_p=0.5, seed=1)]
    assert 0 <= draw(drawing, logits, wants)[0] < VOCAB


@pytest.mark.parametrize(
    "want",
    [
        RowSampling(1e-5, seed=1),
        RowSampling(0.7, top_p=-2.0, seed=1),
        RowSampling(0.7, top_p=0, seed=1),
        RowSampling(0.7, min_p=7.0, seed=1),
        RowSampling(3, top_k=1, seed=1),
    ],
)
def test_the_likeliest_is_always_kept(
    drawing: NativeDrawing, want: RowSampling
) -> None:
    random = torch.Generator().manual_seed(2)
    logits = torch.randn(1, VOCAB, generator=random)
    assert draw(drawing, logits, [want]) == [int(logits.argmax())]
