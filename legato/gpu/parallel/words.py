"""What the leading rank and the others say, beside plans."""

import msgspec

from ...protocol.errors import Failure
from ...protocol.steps import RowSampling, StepPlan
from ..settings import RunnerSettings

GREEDY = RowSampling(temperature=0.0)


class RankOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank is to become.

    Args:
        model: As the user called it.
        settings: For its runner.
        rank: Which it is.
        folder: Where the ranks meet.
    """

    model: str
    settings: RunnerSettings
    rank: int
    folder: str


class RankReady(msgspec.Struct, frozen=True, tag=True):
    """The rank is about to meet the others."""


class RankFailed(msgspec.Struct, frozen=True, tag=True):
    """The rank ends, and why."""

    failure: Failure


WORDS = msgspec.msgpack.Decoder(RankReady | RankFailed)
ORDERS = msgspec.msgpack.Decoder(RankOrder)
PLANS = msgspec.msgpack.Decoder(StepPlan)


def without_sampling(plan: StepPlan) -> StepPlan:
    """Leave out what a rank that does not sample has no use for."""
    if not plan.opens:
        return plan
    opens = tuple(
        msgspec.structs.replace(opened, sampling=GREEDY, history=())
        for opened in plan.opens
    )
    return msgspec.structs.replace(plan, opens=opens)
