"""What the planner tells about itself, as one frozen reading."""

import msgspec


class PlannerStats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One reading.

    Args:
        running: Sequences with a slot that are not paused.
        waiting: Sequences that never started.
        resuming: Sequences that lost their slot and will go on.
        paused: Sequences whose reader has no credit.
        waiting_tokens: Tokens of those that never started.
        slots_free: Slots nobody holds.
        slots_total: Slots of the runner.
        pages_free: Pages nobody uses or remembers.
        pages_cached: Pages only the prefix cache remembers.
        pages_used: Pages in use, those behind the step fence included.
        pages_peak: The most that were ever in use at once.
        pages_fenced: References that wait for a step in flight.
        pages_total: Pages of the runner: always free + cached + used.
        fragmentation: Share of the used pages' positions that no token takes.
        steps: Steps planned.
        steps_in_flight: Planned and not committed.
        planned_rows: Rows in all steps.
        planned_tokens: Positions in all steps.
        emitted_tokens: Tokens given out.
        dropped_tokens: Sampled for a request that had ended meanwhile.
        preemptions: Slots taken back before the end.
        device_losses: Times the runner died.
        prompt_tokens: Of the started requests.
        prefix_hit_tokens: Of those, served from the prefix cache.
        admitted: Requests let in.
        ended: Requests that ended.
        strategy: The batching strategy at work.
        strategy_reason: Why that one.
        arrivals_per_s: Over the last seconds.
        oldest_wait_s: Wait of the first in line.
        step_tokens: Positions one step may compute.
    """

    running: int
    waiting: int
    resuming: int
    paused: int
    waiting_tokens: int
    slots_free: int
    slots_total: int
    pages_free: int
    pages_cached: int
    pages_used: int
    pages_peak: int
    pages_fenced: int
    pages_total: int
    fragmentation: float
    steps: int
    steps_in_flight: int
    planned_rows: int
    planned_tokens: int
    emitted_tokens: int
    dropped_tokens: int
    preemptions: int
    device_losses: int
    prompt_tokens: int
    prefix_hit_tokens: int
    admitted: int
    ended: int
    strategy: str
    strategy_reason: str
    arrivals_per_s: float
    oldest_wait_s: float
    step_tokens: int
