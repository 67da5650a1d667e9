"""A device for the scheduling benchmark: a cost model instead of a model."""

from arrivals import VOCABULARY

from legato.protocol.steps import RunnerLimits, StepPlan, StepResult


def limits(slots: int, pages: int) -> RunnerLimits:
    """A device with pages of 16 positions."""
    return RunnerLimits(
        num_slots=slots,
        num_pages=pages,
        page_size=16,
        max_context=8192,
        max_step_tokens=8192,
        vocab_size=VOCABULARY,
        page_bytes=0,
    )


class ModelledDevice:
    """Takes the time of a cost model, and samples some token or other.

    Args:
        slots: How many it has.
    """

    def __init__(self, slots: int) -> None:
        self._ends = [0] * slots

    def run(self, plan: StepPlan, at_s: float = 0.0) -> StepResult:
        """Weights, then work for each token, then keys and values read."""
        ends, read = self._ends, 0
        for slot in plan.decodes:
            read += ends[slot]
            ends[slot] += 1
        for row in plan.rows:
            read += row.start
            ends[row.slot] = row.start + row.num_tokens
        tokens = tuple(
            [(ends[slot] * 7919 + slot) % VOCABULARY for slot in plan.sampling_slots]
        )
        time_s = 0.004 + 12e-6 * plan.num_tokens + 4e-9 * read
        return StepResult(plan.step, tokens, at_s, at_s + time_s)
