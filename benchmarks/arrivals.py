"""Arrivals like those that servers record: a trace for simulations.

Bursts, long-tail prompts, conversations over shared system prompts, three priorities,
tenants of very unequal demand, slow readers, people who leave. Made as it is asked for,
so that a million requests take no memory; the same seed makes the same trace.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from legato.protocol.requests import Admit
from legato.protocol.steps import RowSampling

GREEDY = RowSampling(0.0)
VOCABULARY = 32_000


@dataclass(order=True)
class Arrival:
    """One request.

    Args:
        at_s: When it comes.
        request: Its number.
        admit: What it asks.
        leaves: Its reader is gone after the first token.
        pauses: Its reader has no credit for a while after the first token.
    """

    at_s: float
    request: int
    admit: Admit = field(compare=False)
    leaves: bool = field(compare=False)
    pauses: bool = field(compare=False)


class Trace:
    """Arrivals, each made when it is asked for.

    Args:
        requests: How many.
        rate_per_s: Of the quiet times; bursts bring three times as many.
        seed: Of everything random.
    """

    def __init__(self, requests: int, rate_per_s: float, seed: int) -> None:
        self._random = random.Random(seed)
        self._requests = requests
        self._rate = rate_per_s
        self._systems = [self._text(64) for _ in range(24)]
        self.answered: deque[tuple[int, ...]] = deque(maxlen=512)

    def __iter__(self) -> Iterator[Arrival]:
        draw = self._random
        now_s, burst_until_s = 0.0, -1.0
        for request in range(self._requests):
            in_burst = now_s < burst_until_s
            now_s += draw.expovariate(self._rate * (3 if in_burst else 1))
            if not in_burst and draw.random() < 0.0006:
                burst_until_s = now_s + draw.uniform(0.5, 3)
            tenant = min(int(draw.paretovariate(0.8)) - 1, 23)
            priority = draw.choices((-1, 0, 1), (5, 75, 20))[0]
            output = min(int(draw.lognormvariate(3.6, 0.8)) + 1, 400)
            admit = Admit(
                request,
                self._prompt(tenant),
                output,
                GREEDY,
                priority=priority,
                tenant=f"tenant {tenant}",
                created_s=now_s,
            )
            leaves, pauses = draw.random() < 0.02, draw.random() < 0.02
            yield Arrival(now_s, request, admit, leaves, pauses)

    def _prompt(self, tenant: int) -> tuple[int, ...]:
        draw = self._random
        added = self._text(min(int(draw.lognormvariate(4.2, 1.1)) + 1, 4000))
        if self.answered and draw.random() < 0.35:
            past = self.answered[draw.randrange(len(self.answered))]
            if len(past) + len(added) < 6000:
                return past + added
        return self._systems[tenant] + added

    def _text(self, length: int) -> tuple[int, ...]:
        start = self._random.randrange(1 << 30)
        return tuple((start * (i + 3) + i * i) % VOCABULARY for i in range(length))
