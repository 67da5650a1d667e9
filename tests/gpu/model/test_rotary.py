import math

import pytest
import torch

from legato.gpu.checkpoint import RopeConfig
from legato.gpu.model.rotary import Rotary, rope_frequencies

CPU = torch.device("cpu")


def test_default_frequencies_fall_geometrically() -> None:
    got = rope_frequencies(RopeConfig(theta=10_000.0), 8)
    assert got.tolist() == pytest.approx([1, 0.1, 0.01, 0.001])


def test_llama3_keeps_high_frequencies_and_stretches_low_ones() -> None:
    rope = RopeConfig(
        theta=500_000.0,
        kind="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_context=8192,
    )
    got = rope_frequencies(rope, 128)
    for index, frequency in enumerate(got.tolist()):
        plain = 500_000.0 ** (-2 * index / 128)
        wavelength = 2 * math.pi / plain
        if wavelength < 8192 / 4:
            want = plain
        elif wavelength > 8192:
            want = plain / 8
        else:
            smooth = (8192 / wavelength - 1) / 3
            want = (1 - smooth) * plain / 8 + smooth * plain
        assert frequency == pytest.approx(want, rel=1e-9)


def test_scores_depend_on_the_distance_alone() -> None:
    rotary = Rotary(RopeConfig(theta=1e5), 64, 8192, CPU)
    q, k = torch.randn(2, 1, 1, 64).double().float()
    scores = [
        float((rotary.rotate(q, rotary.at(a)) * rotary.rotate(k, rotary.at(b))).sum())
        for a, b in ((torch.tensor([p + 5]), torch.tensor([p])) for p in (0, 90, 8000))
    ]
    assert scores[1:] == pytest.approx([scores[0]] * 2, abs=1e-3)
