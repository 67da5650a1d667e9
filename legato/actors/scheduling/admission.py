"""Admission: what is refused at the door, with the numbers.

Everything that could never be served is refused here, so that no admitted request can
get stuck: its positions fit the context, its pages fit the pool, its ids fit the
vocabulary. Load is refused as well, before any work.
"""

from ...protocol.errors import (
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
)
from ...protocol.requests import Admit
from ...protocol.steps import RunnerLimits
from .forecast import Forecast
from .pace import Pace
from .roster import Roster
from .settings import PlannerSettings


class Admission:
    """The door.

    Args:
        limits: The runner's.
        settings: The planner's.
        roster: Who is inside.
        pace: How fast they move on.
        forecast: When a newcomer's turn can come.
    """

    def __init__(
        self,
        limits: RunnerLimits,
        settings: PlannerSettings,
        roster: Roster,
        pace: Pace,
        forecast: Forecast,
    ) -> None:
        self._limits = limits
        self._settings = settings
        self._roster = roster
        self._pace = pace
        self._forecast = forecast

    def check(self, admit: Admit, now_s: float) -> None:
        """Let a request pass.

        Raises:
            InvalidRequest: It is malformed, or too much is asked.
            ContextOverflow: Its prompt can never fit.
            Overloaded: Too much is waiting.
            DeadlineExceeded: Its deadline cannot be met.
        """
        self._check_form(admit)
        self._check_size(admit)
        self._check_load(admit, now_s)
        self._check_deadlines(admit, now_s)

    def _check_form(self, admit: Admit) -> None:
        if admit.request in self._roster.live:
            raise InvalidRequest(f"request {admit.request} is already running")
        if not admit.prompt:
            raise InvalidRequest("must have at least one token", field="prompt")
        if admit.max_tokens < 1:
            raise InvalidRequest(
                f"must be at least 1, got {admit.max_tokens}", field="max_tokens"
            )
        if len(admit.emitted) > admit.max_tokens:
            raise InvalidRequest(
                f"{len(admit.emitted)} tokens were emitted already, more than "
                f"{admit.max_tokens}",
                field="max_tokens",
            )
        vocabulary = self._limits.vocab_size
        for ids in (admit.prompt, admit.emitted):
            if ids and not (min(ids) >= 0 and max(ids) < vocabulary):
                wrong = min(ids) if min(ids) < 0 else max(ids)
                raise InvalidRequest(
                    f"token id {wrong} is outside the vocabulary [0, {vocabulary})",
                    field="prompt",
                )

    def _check_size(self, admit: Admit) -> None:
        limits = self._limits
        pool = limits.num_pages * limits.page_size
        prompt, context = len(admit.prompt), limits.max_context
        if prompt >= context:
            raise ContextOverflow(prompt, context - 1, f"the context of {context}")
        if prompt > pool:
            raise ContextOverflow(prompt, pool, f"the cache of {pool} positions")
        if prompt + admit.max_tokens > context:
            raise InvalidRequest(
                f"{admit.max_tokens} is more than the {context - prompt} tokens that "
                f"a prompt of {prompt} leaves in the context of {context}",
                field="max_tokens",
            )
        # The last token is never computed, so it takes no place.
        if prompt + admit.max_tokens - 1 > pool:
            raise InvalidRequest(
                f"{admit.max_tokens} is more than the {pool - prompt + 1} tokens that "
                f"a prompt of {prompt} leaves in the cache of {pool} positions "
                f"({limits.num_pages} pages of {limits.page_size})",
                field="max_tokens",
            )

    def _check_load(self, admit: Admit, now_s: float) -> None:
        roster, settings = self._roster, self._settings
        tokens = len(admit.prompt) + len(admit.emitted)
        waiting, limit = roster.num_unstarted, settings.max_waiting
        if waiting >= limit:
            excess = (waiting - limit + 1) * roster.unstarted_tokens // waiting
            raise Overloaded(
                f"{waiting} requests are waiting, {limit} may",
                retry_after_s=self._pace.retry_after_s(excess, now_s),
            )
        total = roster.unstarted_tokens + tokens
        if waiting and total > settings.max_waiting_tokens:
            excess = total - settings.max_waiting_tokens
            raise Overloaded(
                f"{roster.unstarted_tokens} tokens are waiting, "
                f"{settings.max_waiting_tokens} may",
                retry_after_s=self._pace.retry_after_s(excess, now_s),
            )

    def _check_deadlines(self, admit: Admit, now_s: float) -> None:
        """Refuse what would be late even if all went twice as fast as lately."""
        if admit.emitted:
            return  # it was let in before, and readers have seen its first token
        limits = [
            (limit_s, name)
            for limit_s, name in (
                (admit.ttft_deadline_s, "ttft_deadline_s"),
                (admit.total_deadline_s, "total_deadline_s"),
            )
            if limit_s > 0
        ]
        if not limits:
            return
        limit_s, name = min(limits)
        left_s = admit.created_s + limit_s - now_s
        outlook = self._forecast.look(admit, now_s, left_s)
        if outlook.wait_s > left_s or left_s <= 0:
            raise DeadlineExceeded(
                f"{name}: of {limit_s:g} s {left_s:.3g} s are left, but the first "
                f"token takes {outlook.wait_s:.3g} s or more: {outlook.requests} "
                f"requests with {outlook.tokens} tokens go before it, and its prompt "
                f"of {len(admit.prompt)} tokens takes {outlook.steps} steps; allow "
                "more time, or try again when less is waiting"
            )
