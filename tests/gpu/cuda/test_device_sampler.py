"""The sampler on the device against the one on the host, on a CPU."""

from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.gpu.cuda.host_device import HostDevice
from legato.gpu.cuda.program import PROGRAMS, Choice, Extras, Program
from legato.gpu.cuda.sampler import DeviceSampler, SampledRows
from legato.gpu.cuda.slot_sampling import pack
from legato.gpu.cuda.tape import TapeGraph
from legato.gpu.sampling import SampleRow, SlotWishes, sample
from legato.protocol.steps import RowSampling, RunnerLimits, SlotOpen

CPU = torch.device("cpu")
HISTORY = (1, 3, 3)


class Table:
    """Slots on the device, one for each thing wanted."""

    def __init__(self, wants: list[RowSampling], vocab: int) -> None:
        self.wants, self.vocab = wants, vocab
        limits = RunnerLimits(
            num_slots=len(wants),
            num_pages=1,
            page_size=4,
            max_context=64,
            max_step_tokens=64,
            vocab_size=vocab,
            page_bytes=0,
        )
        self.sampler = DeviceSampler(limits, len(wants), HostDevice())
        for slot, want in enumerate(wants):
            self.sampler.slots.open(SlotOpen(slot, want, 1, (), HISTORY), want)
            numbers = torch.asarray(pack(want, vocab))[None]
            self.sampler.slots.write(torch.tensor([slot]), numbers)

    def sample(
        self, logits: torch.Tensor, slots: list[int], program: Program | None = None
    ) -> list[int]:
        """Sample rows of slots; each slot's output number is its own."""
        chosen = [Program.of(self.wants[slot], self.vocab) for slot in slots]
        rows = torch.tensor(slots)
        self.sampler.logits[: len(slots)] = logits[slots]
        with torch.inference_mode():
            self.sampler.sample(
                program or Program.joined(chosen),
                SampledRows(rows, rows.clone(), torch.full_like(rows, -1)),
            )
        return self.sampler.outcomes[: len(slots), 0].long().tolist()


def some_logits(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocab, generator=random) * 3


wants_of_rows = st.builds(
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


@pytest.mark.slow
@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.lists(wants_of_rows, min_size=1, max_size=5),
    st.integers(0, 99),
    st.sampled_from([96, 1000, 2048]),
)
def test_tokens_are_the_hosts(wants: list[RowSampling], seed: int, vocab: int) -> None:
    logits, table = some_logits(len(wants), vocab, seed), Table(wants, vocab)
    rows = [
        SampleRow(
            slot,
            slot,
            SlotWishes(
                want, prompt_tokens=1, history=HISTORY, vocab_size=vocab, device=CPU
            ),
        )
        for slot, want in enumerate(wants)
    ]
    told = sample(logits.clone(), rows)
    assert table.sample(logits, [*range(len(wants))]) == list(told.tokens)
    for place, report in told.logprobs.items():
        got, most = table.sampler.reports[place], table.sampler.num_likeliest
        count = len(report.ids)
        assert float(got[0]) == pytest.approx(report.chosen, abs=1e-5)
        assert got[1 : 1 + count].tolist() == pytest.approx(report.values, abs=1e-5)
        assert got[1 + most :][:count].long().tolist() == list(report.ids)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(wants_of_rows, min_size=2, max_size=5), st.integers(0, 99))
def test_a_token_depends_neither_on_rows_beside_it_nor_on_the_program(
    wants: list[RowSampling], seed: int
) -> None:
    logits = some_logits(len(wants), 1000, seed)
    together = Table(wants, 1000).sample(logits, [*range(len(wants))])
    table = Table(wants, 1000)
    for slot, want in enumerate(wants):
        counted = table.sampler.slots.counts[slot].clone()
        least = Program.of(want, 1000)
        for program in PROGRAMS:
            if program.choice >= least.choice and program.extras >= least.extras:
                table.sampler.slots.counts[slot] = counted
                assert table.sample(logits, [slot], program) == [together[slot]]


def test_greedy_takes_the_lowest_of_equals() -> None:
    logits = torch.zeros(1, 96)
    logits[0, [40, 41, 77]] = 2.0
    assert Table([RowSampling(0.0)], 96).sample(logits, [0]) == [40]


def test_the_future_has_each_slots_token() -> None:
    table = Table([RowSampling(0.0)] * 3, 96)
    tokens = table.sample(some_logits(3, 96), [2, 0])
    assert table.sampler.future[[2, 0]].tolist() == tokens
    assert table.sampler.future[1] == 0


def test_a_penalized_token_is_counted_as_it_is_sampled() -> None:
    logits = torch.zeros(1, 96)
    logits[0, 10], logits[0, 20] = 3.0, 2.0
    table = Table([RowSampling(0.0, presence_penalty=2.0)], 96)
    assert [table.sample(logits, [0])[0] for _ in range(4)] == [10, 20, 10, 10]


def test_a_slot_opened_anew_forgets_bias_and_penalties() -> None:
    logits = torch.zeros(1, 96)
    logits[0, 10] = 1.0
    table = Table([RowSampling(0.0, logit_bias={3: 9.0}, presence_penalty=1.0)], 96)
    assert table.sample(logits, [0]) == [3]
    numbers = torch.asarray(pack(RowSampling(0.0), 96))[None]
    table.sampler.slots.write(torch.tensor([0]), numbers)
    everything = Program(Choice.FILTERED, Extras.REPORTED)
    assert table.sample(logits, [0], everything) == [10]


@pytest.mark.parametrize("vocab", [96, 100])
def test_a_mask_binds_its_rows_alone(vocab: int) -> None:
    table = Table([RowSampling(0.0), RowSampling(1.0, seed=3)], vocab)
    sampler, rows = table.sampler, torch.tensor([0, 1, 0, 1])[:2]
    allowed = np.zeros(128, np.uint8)
    allowed[[7, 99 % vocab]] = 1
    words = np.packbits(allowed, bitorder="little").view(np.int32)
    sampler.masks[0] = torch.asarray(words[: sampler.masks.shape[1]])
    logits = some_logits(2, vocab)
    free = int(logits[0].argmax())
    sampler.logits[:] = logits
    masks = torch.tensor([-1, 0])
    program = Program(Choice.DRAWN, Extras.ADJUSTED)
    with torch.inference_mode():
        sampler.sample(program, SampledRows(rows, rows.clone(), masks))
    tokens = sampler.outcomes[:, 0].tolist()
    assert tokens[0] == free
    assert tokens[1] in (7, 99 % vocab)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_row_that_cannot_be_chosen_from_says_so_and_spoils_no_other(
    value: float,
) -> None:
    want = RowSampling(1.0, top_p=0.9, top_k=50, presence_penalty=1.0)
    logits = some_logits(3, 96)
    good = Table([want] * 3, 96).sample(logits, [0, 1, 2])
    logits[1] = value
    table = Table([want] * 3, 96)
    tokens = table.sample(logits, [0, 1, 2])
    assert (tokens[0], tokens[2]) == (good[0], good[2])
    assert 0 <= tokens[1] < 96
    peaks = table.sampler.outcomes[:, 1]
    assert peaks.isfinite().tolist() == [True, False, True]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_every_program_can_be_captured(program: Program) -> None:
    table = Table([RowSampling(1.0, top_k=5, seed=8)] * 2, 96)
    rows = torch.tensor([0, 1])
    inputs = SampledRows(rows, rows.clone(), torch.full_like(rows, -1))
    first, second = some_logits(2, 96, 1), some_logits(2, 96, 2)
    with torch.inference_mode():
        table.sampler.logits.copy_(first)
        graph = TapeGraph.of(lambda: table.sampler.sample(program, inputs))
        table.sampler.logits.copy_(second)
        inputs.outputs.copy_(torch.tensor([9, 4]))
        graph.replay()
        replayed = table.sampler.outcomes.clone()
        table.sampler.sample(program, inputs)
    assert replayed.equal(table.sampler.outcomes)
