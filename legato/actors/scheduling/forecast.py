"""The forecast: the soonest that a newcomer's first token can come.

It errs towards too soon, so that nothing is refused that might have been in time:

- Ahead of a newcomer stand only those whom no order lets it pass before its deadline:
  in its own line those that are no longer than it, and the lines of better priorities
  that its own will not catch up with by waiting. Whoever only may go first is left out.
- They move on as fast as those who waited lately did, in requests or in tokens,
  whichever is quicker; without a second's measure nothing stands ahead.
- Its own prompt, as far as nothing of it is cached, takes full steps that are as quick
  as the quickest lately.
- All of this twice as fast as measured.
"""

from dataclasses import dataclass

from ...protocol.requests import Admit
from .pace import Pace
from .roster import Roster
from .storage import Storage

MARGIN = 2.0
"""How many times faster than measured it may go."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be expected.

    Args:
        wait_s: The soonest first token, from now.
        requests: That go before it.
        tokens: Of theirs.
        steps: That its own prompt takes at least.
    """

    wait_s: float
    requests: int
    tokens: int
    steps: int


class Forecast:
    """Looks ahead for newcomers.

    Args:
        roster: Who waits.
        storage: What is cached.
        pace: How fast it goes.
        step_tokens: Positions in a step.
        depth: Steps in flight, whose results may be cached in a moment.
    """

    def __init__(
        self,
        roster: Roster,
        storage: Storage,
        pace: Pace,
        step_tokens: int,
        depth: int,
    ) -> None:
        self._roster = roster
        self._storage = storage
        self._pace = pace
        self._step_tokens = step_tokens
        self._depth = depth

    def look(self, admit: Admit, now_s: float, within_s: float) -> Outlook:
        """Say when a newcomer's first token can come, if that matters within a time."""
        requests, tokens = self._roster.fresh.ahead(
            admit.tenant, admit.priority, len(admit.prompt), now_s, now_s + within_s
        )
        queue_s = self._pace.turns.wait_s(requests, tokens) / MARGIN
        step_s = self._pace.steps.least_s / MARGIN
        steps = self._num_steps(len(admit.prompt))
        if queue_s + steps * step_s > within_s:
            # Looking it up costs as much as the prompt is long.
            steps = self._num_steps(self._storage.num_new(admit.prompt))
        return Outlook(queue_s + steps * step_s, requests, tokens, steps)

    def _num_steps(self, tokens: int) -> int:
        return max(-(-tokens // self._step_tokens) - self._depth, 1)
