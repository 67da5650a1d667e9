"""Tenants: who has had how much, so that each gets a fair share.

Start-time fair queueing, with tokens as the currency: what is computed is charged to
its tenant (a prompt at its start, an answer as it goes). Of those who wait, the tenant
with the largest deficit (the least charged) goes first. A tenant that comes back from
idling starts level with the others: idling earns no claim on the past. Debts are
forgotten once all have caught up, or once nobody waits: without competition there is
nothing to share.

Source: Goyal, Vin, Cheng, "Start-time Fair Queuing", 1996.
"""

from dataclasses import dataclass

PRUNE_ABOVE = 1024
"""Accounts kept before those without a claim or a debt are dropped."""


@dataclass(slots=True, eq=False)
class Share:
    """One tenant's account.

    Args:
        tenant: Its name.
        used: Tokens charged, level with the others' at its last return from idling.
        live: Sequences that refer to it.
        waiting: Those in line.
    """

    tenant: str
    used: float = 0.0
    live: int = 0
    waiting: int = 0


class Tenants:
    """All accounts, and the level that new claims start from."""

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}
        self._level = 0.0
        self._highest = 0.0
        self._waiting = 0
        self._prune_at = PRUNE_ABOVE

    def __len__(self) -> int:
        return len(self._shares)

    def enter(self, tenant: str) -> Share:
        """Give a new sequence its tenant's account."""
        share = self._shares.get(tenant)
        if share is None:
            self._prune()
            share = self._shares[tenant] = Share(tenant, self._level)
        share.live += 1
        return share

    def leave(self, share: Share) -> None:
        """Count a sequence out."""
        share.live -= 1

    def line_up(self, share: Share) -> None:
        """Count a waiting sequence; the first one sets the account level."""
        if self._waiting == 0:
            self._level = self._highest
        if share.waiting == 0:
            share.used = max(share.used, self._level)
        share.waiting += 1
        self._waiting += 1

    def step_out(self, share: Share) -> None:
        """Count a waiting sequence out."""
        share.waiting -= 1
        self._waiting -= 1

    def serve(self, share: Share, tokens: int) -> None:
        """Charge a start: its tenant was the one with the largest deficit."""
        self._level = max(self._level, share.used)
        self.charge(share, tokens)

    def charge(self, share: Share, tokens: int) -> None:
        """Charge what was computed. Accounts only grow: lines are ranked by them."""
        used = share.used = share.used + tokens
        if used > self._highest:
            self._highest = used

    def _prune(self) -> None:
        if len(self._shares) < self._prune_at:
            return
        self._shares = {
            tenant: share
            for tenant, share in self._shares.items()
            if share.live or share.used > self._level
        }
        self._prune_at = max(PRUNE_ABOVE, 2 * len(self._shares))
