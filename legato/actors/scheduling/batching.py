"""Batching: when waiting sequences may start.

Continuous: at once, into whatever runs. Dynamic: a batch is collected for a short time,
runs to its end, and the next one is collected meanwhile. Static: the same with a fixed
size, and with every page reserved at the start. A *gate* is a strategy at work; it sees
counts and clocks only, and is replaced at run time without touching what runs.
"""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from ...protocol.errors import InvalidSetting

UNLIMITED = 1 << 30


class Continuous(msgspec.Struct, frozen=True, tag="continuous"):
    """Start whatever fits, at every step."""


class Dynamic(msgspec.Struct, frozen=True, kw_only=True, tag="dynamic"):
    """Collect a batch for a short time, run it to its end.

    Args:
        max_batch: Most sequences in a batch.
        max_delay_s: Longest time the first of a batch waits for others.
        preferred: Sizes that start as soon as they are reached.
        adaptive: Wait only as long as the recent arrivals promise to fill the batch,
            and not at all if no other is expected within ``max_delay_s``.

    Raises:
        InvalidSetting: A value is out of range.
    """

    max_batch: int = 8
    max_delay_s: float = 0.01
    preferred: tuple[int, ...] = ()
    adaptive: bool = True

    def __post_init__(self) -> None:
        _check_size("max_batch", self.max_batch)
        _check_delay("max_delay_s", self.max_delay_s)
        for size in self.preferred:
            if not 1 <= size <= self.max_batch:
                raise InvalidSetting(
                    f"preferred batch sizes lie in [1, {self.max_batch}], got {size}"
                )


class Static(msgspec.Struct, frozen=True, kw_only=True, tag="static"):
    """Wait for a full batch, run it to its end.

    Args:
        size: Sequences in a batch.
        max_wait_s: A batch that does not fill starts after so long.

    Raises:
        InvalidSetting: A value is out of range.
    """

    size: int = 8
    max_wait_s: float = 1.0

    def __post_init__(self) -> None:
        _check_size("size", self.size)
        _check_delay("max_wait_s", self.max_wait_s)


class Auto(msgspec.Struct, frozen=True, kw_only=True, tag="auto"):
    """Choose by the model's structure and the load.

    Args:
        one_shot: The model answers in one step (embedding, classification).
        max_batch: For the dynamic strategy.
        max_delay_s: For the dynamic strategy.

    Raises:
        InvalidSetting: A value is out of range.
    """

    one_shot: bool = False
    max_batch: int = 32
    max_delay_s: float = 0.005

    def __post_init__(self) -> None:
        _check_size("max_batch", self.max_batch)
        _check_delay("max_delay_s", self.max_delay_s)


Batching = Continuous | Dynamic | Static | Auto
STRATEGIES: dict[str, type[Batching]] = {
    "continuous": Continuous,
    "dynamic": Dynamic,
    "static": Static,
    "auto": Auto,
}


@dataclass(frozen=True, slots=True)
class Load:
    """What a gate may know.

    Args:
        now_s: The clock.
        waiting: Sequences that never started.
        oldest_s: Arrival of the first of them, or None.
        running: Sequences that started and go on by themselves.
        arrivals_per_s: Over the last seconds.
    """

    now_s: float
    waiting: int
    oldest_s: float | None
    running: int
    arrivals_per_s: float


class Gate(Protocol):
    """A strategy at work."""

    @property
    def strategy(self) -> str:
        """Its name."""
        ...

    @property
    def reason(self) -> str:
        """Why this strategy."""
        ...

    @property
    def reserves(self) -> bool:
        """Whether a sequence gets all pages it may ever need at its start."""
        ...

    def room(self, load: Load) -> int:
        """How many may start now."""
        ...

    def start(self) -> None:
        """Count one that started."""
        ...

    def wake_at(self, load: Load) -> float | None:
        """When ``room`` may change though nothing else does."""
        ...


class OpenGate:
    """Continuous batching.

    Args:
        reason: Why this strategy.
    """

    strategy = "continuous"
    reserves = False

    def __init__(self, reason: str = "as configured") -> None:
        self.reason = reason

    def room(self, load: Load) -> int:
        """No limit but slots and pages."""
        return UNLIMITED

    def start(self) -> None:
        """Nothing to count."""

    def wake_at(self, load: Load) -> float | None:
        """Time alone changes nothing."""
        return None


class BatchGate:
    """Batches that run to their end: dynamic, and static as its strict case.

    Args:
        batching: The strategy.
        reason: Why this strategy.
    """

    def __init__(self, batching: Dynamic | Static, reason: str = "as configured"):
        self.reason = reason
        self._places = 0
        self._adaptive = False
        if isinstance(batching, Static):
            self.strategy, self.reserves = "static", True
            self._sizes = [batching.size]
            self._delay_s = batching.max_wait_s
        else:
            self.strategy, self.reserves = "dynamic", False
            self._sizes = sorted({*batching.preferred, batching.max_batch})
            self._delay_s = batching.max_delay_s
            self._adaptive = batching.adaptive

    def room(self, load: Load) -> int:
        """Places left in the open batch; a new one opens when the last has ended."""
        self._places = min(self._places, load.waiting)
        if not self._places and not load.running and load.oldest_s is not None:
            reached = [size for size in self._sizes if size <= load.waiting]
            if reached:
                self._places = reached[-1]
            elif load.now_s >= load.oldest_s + self._wait_s(load):
                self._places = load.waiting
        return self._places

    def start(self) -> None:
        """Take a place."""
        self._places -= 1

    def wake_at(self, load: Load) -> float | None:
        """When the batch that is being collected starts as it is."""
        if load.running or load.oldest_s is None or self._places:
            return None
        return load.oldest_s + self._wait_s(load)

    def _wait_s(self, load: Load) -> float:
        if not self._adaptive:
            return self._delay_s
        if load.arrivals_per_s * self._delay_s < 1:
            return 0.0
        return min(self._delay_s, (self._sizes[-1] - 1) / load.arrivals_per_s)


class AutoGate:
    """Chooses between the others, and says why.

    Args:
        batching: The strategy.
    """

    def __init__(self, batching: Auto) -> None:
        self._one_shot = batching.one_shot
        self._open = OpenGate()
        self._batch = BatchGate(
            Dynamic(max_batch=batching.max_batch, max_delay_s=batching.max_delay_s)
        )
        self._expected_for_s = batching.max_delay_s
        self._gate: Gate = self._open
        self.reserves = False
        self.reason = (
            "one-shot model, nothing measured yet"
            if batching.one_shot
            else "the model decodes token by token: answers end one by one, and each "
            "end leaves room for the next"
        )

    @property
    def strategy(self) -> str:
        """What it chose last."""
        return self._gate.strategy

    def room(self, load: Load) -> int:
        """Choose, then ask the chosen one."""
        if self._one_shot:
            self._choose(load)
        return self._gate.room(load)

    def start(self) -> None:
        """Count one that started."""
        self._gate.start()

    def wake_at(self, load: Load) -> float | None:
        """Ask the chosen one."""
        return self._gate.wake_at(load)

    def _choose(self, load: Load) -> None:
        expected = load.arrivals_per_s * self._expected_for_s
        rate = f"{load.arrivals_per_s:.1f} requests/s"
        if expected >= 1:
            self._gate = self._batch
            self.reason = f"one-shot model at {rate}: waiting fills batches"
        else:
            self._gate = self._open
            self.reason = f"one-shot model at {rate}: waiting would only delay"


def open_gate(batching: Batching) -> Gate:
    """Put a strategy to work."""
    if isinstance(batching, Continuous):
        return OpenGate()
    if isinstance(batching, Auto):
        return AutoGate(batching)
    return BatchGate(batching)


def _check_size(name: str, size: int) -> None:
    if not 1 <= size <= 65_536:
        raise InvalidSetting(f"{name} must be in [1, 65536], got {size}")


def _check_delay(name: str, delay_s: float) -> None:
    if not 0 <= delay_s <= 3600:
        raise InvalidSetting(f"{name} must be in [0, 3600] seconds, got {delay_s!r}")
