import torch

from legato.gpu.sampling.randomness import int64, uniform

MASK = 2**64 - 1


def splitmix(state: int) -> int:
    """SplitMix64's output function, on unbounded integers."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & MASK
    return state ^ (state >> 31)


def test_numbers_are_the_hash_of_seed_and_output() -> None:
    seeds = [0, 1, 2**64 - 1, -(2**63), 123456789]
    outputs = [0, 7, 2**31, 3, 99]
    step = 0x9E3779B97F4A7C15
    want = [
        (splitmix((splitmix((s + step) & MASK) + (o + 1) * step) & MASK) >> 11) / 2**53
        for s, o in zip(seeds, outputs, strict=True)
    ]
    device = torch.device("cpu")
    assert uniform(int64(seeds, device), int64(outputs, device)).tolist() == want


def test_numbers_are_spread_evenly_over_outputs_and_over_seeds() -> None:
    many, one = torch.arange(20_000), torch.zeros(20_000, dtype=torch.int64)
    for numbers in (uniform(one, many), uniform(many, one)):
        assert numbers.min() >= 0
        assert numbers.max() < 1
        counts = torch.histc(numbers.float(), 20, 0, 1)
        assert (counts - 1000).abs().max() < 150
        shifted = torch.corrcoef(torch.stack([numbers[1:], numbers[:-1]]))[0, 1]
        assert abs(float(shifted)) < 0.03
