"""Log-probabilities of tokens that are given: those of prompts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ...protocol.steps import StepPlan, TokenLogprobs
from ..readback import integers, reals

AT_ONCE = 32
"""Positions that go through the head together: 6 MB of logits for 49,152 tokens."""


@dataclass(frozen=True)
class ScoredRow:
    """What is wanted of one row.

    Args:
        row: Which of the plan's.
        first: Of the step's tokens, the one at whose position it begins.
        targets: The token that follows each position, from there on.
        count: How many of the likeliest to tell.
    """

    row: int
    first: int
    targets: tuple[int, ...]
    count: int


def scored_rows(
    plan: StepPlan, count_of: Callable[[int], int]
) -> tuple[ScoredRow, ...]:
    """Find the rows that ask for log-probabilities of their tokens.

    Args:
        plan: The step's.
        count_of: How many of the likeliest a slot wants.
    """
    found: list[ScoredRow] = []
    first = len(plan.decodes)
    for index, row in enumerate(plan.rows):
        if row.targets:
            count = count_of(row.slot)
            begin = first + row.targets_from
            found.append(ScoredRow(index, begin, row.targets, max(count, 0)))
        first += row.num_tokens
    return tuple(found)


class Scoring:
    """Scores the tokens of a step's rows, some positions at a time.

    Until ``scores`` it only queues work on the device, in the order of its calls.

    Args:
        rows: At least one.
        device: Of the logits.
    """

    def __init__(self, rows: Sequence[ScoredRow], device: torch.device) -> None:
        self._rows = rows
        self._device = device
        self._targets = [target for row in rows for target in row.targets]
        self._most = max(row.count for row in rows)
        self._num_taken = 0
        self._chosen: list[torch.Tensor] = []
        self._ids: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    def parts(self) -> Iterator[torch.Tensor]:
        """[n] int64: of the step's tokens, those whose logits ``take`` wants next."""
        places = [
            row.first + at for row in self._rows for at in range(len(row.targets))
        ]
        for begin in range(0, len(places), AT_ONCE):
            yield self._upload(places[begin : begin + AT_ONCE])

    def take(self, logits: torch.Tensor) -> None:
        """Score a part.

        Args:
            logits: [n, vocab] float32.
        """
        begin, self._num_taken = self._num_taken, self._num_taken + len(logits)
        some = self._targets[begin : self._num_taken]
        targets = self._upload(some)[:, None]
        logprobs = logits.log_softmax(1)
        values, ids = logprobs.topk(min(self._most, logits.shape[1]))
        self._chosen.append(logprobs.gather(1, targets)[:, 0])
        self._ids.append(ids)
        self._values.append(values)

    def _upload(self, values: Sequence[int]) -> torch.Tensor:
        # Pinned, or the copy would wait for the steps that run before this one.
        pinned = self._device.type == "cuda"
        host = torch.tensor(values, dtype=torch.int64, pin_memory=pinned)
        return host.to(self._device, non_blocking=True)

    def scores(self) -> dict[int, tuple[TokenLogprobs, ...]]:
        """All of it, by row of the plan; waits for what is queued."""
        chosen = reals(torch.cat(self._chosen))
        ids = [integers(row) for row in torch.cat(self._ids)]
        values = [reals(row) for row in torch.cat(self._values)]
        told: dict[int, tuple[TokenLogprobs, ...]] = {}
        begin = 0
        for row in self._rows:
            end, count = begin + len(row.targets), row.count
            told[row.row] = tuple(
                TokenLogprobs(
                    chosen[at], tuple(ids[at][:count]), tuple(values[at][:count])
                )
                for at in range(begin, end)
            )
            begin = end
        return told
