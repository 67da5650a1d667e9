"""A closed loop of streams on an engine, and what their readers saw."""

import asyncio
import random
import resource
import sys
import time
from collections.abc import Sequence

import msgspec

from ..engine import Engine
from ..protocol.core import CoreStats
from ..protocol.sampling import SamplingParams

# Ids that are words in every vocabulary worth measuring: the first are often special.
FIRST_WORD = 300


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked at once.

    Args:
        streams: Open at a time; the next begins as one ends.
        requests: Altogether.
        prompt_tokens: Of each; random, so that no prompt begins like another.
        max_tokens: Of each answer, exactly.
        seed: Of the prompts.
    """

    streams: int
    requests: int
    prompt_tokens: int
    max_tokens: int
    seed: int = 0


class Answer(msgspec.Struct):
    """When one reader got what.

    Args:
        begun_s: It asked.
        tokens: Tokens it got.
        times: When a delta came.
    """

    begun_s: float
    tokens: int = 0
    times: list[float] = []


async def drive(engine: Engine, load: Load) -> list[Answer]:
    """Run the loop to its end.

    Raises:
        LegatoError: A stream failed.
    """
    numbers = iter(range(load.requests))
    answers: list[Answer] = []

    async def reader() -> None:
        for number in numbers:
            answers.append(await _ask(engine, load, number))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(load.streams, load.requests)):
            group.create_task(reader())
    return answers


async def _ask(engine: Engine, load: Load, number: int) -> Answer:
    words = random.Random(f"{load.seed} {number}")
    first = min(FIRST_WORD, engine.vocab_size - 1)
    prompt = [
        words.randrange(first, engine.vocab_size) for _ in range(load.prompt_tokens)
    ]
    params = SamplingParams(
        temperature=0,
        max_tokens=load.max_tokens,
        ignore_eos=True,
    )
    answer = Answer(time.perf_counter())
    async with engine.stream(prompt, params) as stream:
        async for delta in stream:
            if delta.token_ids:
                answer.times.append(time.perf_counter())
                answer.tokens += len(delta.token_ids)
    return answer


def report(
    answers: Sequence[Answer], before: CoreStats, after: CoreStats
) -> dict[str, float]:
    """Sum up what readers saw, and what the device did between two readings."""
    waits = [a.times[0] - a.begun_s for a in answers if a.times]
    gaps = [
        later - sooner
        for answer in answers
        for sooner, later in zip(answer.times, answer.times[1:], strict=False)
    ]
    began = min(answer.begun_s for answer in answers)
    ended = max(answer.times[-1] for answer in answers if answer.times)
    busy_s, idle_s = after.busy_s - before.busy_s, after.idle_s - before.idle_s
    return {
        "out_tok_s": round(sum(a.tokens for a in answers) / (ended - began), 2),
        "ttft_ms_p50": milliseconds(waits, 0.5),
        "ttft_ms_p99": milliseconds(waits, 0.99),
        "itl_ms_p50": milliseconds(gaps, 0.5),
        "itl_ms_p99": milliseconds(gaps, 0.99),
        "bubble_share": round(idle_s / (busy_s + idle_s), 4) if busy_s else 0.0,
        "peak_rss_mib": round(peak_bytes() / 2**20, 1),
    }


def milliseconds(values_s: Sequence[float], share: float) -> float:
    """The value that a share of all does not exceed; 0 if there are none."""
    if not values_s:
        return 0.0
    ordered = sorted(values_s)
    return round(1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 3)


def peak_bytes() -> int:
    """The most memory this process, or a child that ended, ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in of) * unit
