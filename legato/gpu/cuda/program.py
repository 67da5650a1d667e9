"""How much of sampling a step needs: what nobody asked for is not computed.

A row's token is the same under every program that is enough for it, so that it does not
depend on the rows beside it.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from ...protocol.steps import RowSampling
from ..sampling.sampler import COLDEST
from .slot_sampling import counts_tokens


class Choice(IntEnum):
    """How tokens are chosen, each including those before."""

    GREEDY = 0
    DRAWN = 1
    FILTERED = 2


class Extras(IntEnum):
    """What is done to logits before that, each including those before."""

    NONE = 0
    ADJUSTED = 1
    REPORTED = 2


class Program(NamedTuple):
    """What a step's sampling does."""

    choice: Choice
    extras: Extras

    @classmethod
    def of(cls, sampling: RowSampling, vocab_size: int) -> "Program":
        """The least that one row needs."""
        choice = Choice.DRAWN
        if sampling.temperature < COLDEST:
            choice = Choice.GREEDY
        elif 0 < sampling.top_k < vocab_size or sampling.top_p < 1:
            choice = Choice.FILTERED
        if sampling.logprobs >= 0:
            return cls(choice, Extras.REPORTED)
        wishes = sampling.logit_bias or sampling.min_tokens > 0 or sampling.grammar
        adjusted = bool(wishes) or counts_tokens(sampling)
        return cls(choice, Extras.ADJUSTED if adjusted else Extras.NONE)

    @classmethod
    def joined(cls, programs: Iterable["Program"]) -> "Program":
        """The least that is enough for all of some rows."""
        choices, extras = zip(*programs, strict=True)
        return cls(max(choices), max(extras))


PROGRAMS = tuple(Program(choice, extras) for choice in Choice for extras in Extras)
# What a grammar alone needs.
BOUND = Program(Choice.GREEDY, Extras.ADJUSTED)
