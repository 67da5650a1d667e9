"""What can be set about planning, with its ranges."""

import msgspec

from ...protocol.errors import InvalidSetting
from .batching import Batching, Continuous


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the planner plans.

    Args:
        max_step_tokens: Positions one step computes at most; the runner's own limit
            applies as well. Smaller means shorter gaps for running streams while a
            long prompt is computed; larger means faster prompts.
        max_waiting: Requests that may wait for their first start.
        max_waiting_tokens: Their tokens together.
        prefix_cache: Whether computed pages serve later requests.
        batching: When waiting requests start.
        depth: Steps between plan and result at once, [1, 8].
        patience_s: Seconds of waiting that are worth one priority, and after which
            arrival alone orders a tenant's requests.

    Raises:
        InvalidSetting: A value is out of range.
    """

    max_step_tokens: int = 512
    max_waiting: int = 1024
    max_waiting_tokens: int = 4_194_304
    prefix_cache: bool = True
    batching: Batching = Continuous()
    depth: int = 2
    patience_s: float = 10.0

    def __post_init__(self) -> None:
        _check("max_step_tokens", self.max_step_tokens, 1, 1 << 24)
        _check("max_waiting", self.max_waiting, 1, 1 << 24)
        _check("max_waiting_tokens", self.max_waiting_tokens, 1, 1 << 40)
        _check("depth", self.depth, 1, 8)
        _check("patience_s", self.patience_s, 0.001, 86_400)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidSetting(f"{name} must be in [{low:g}, {high:g}], got {value!r}")
