"""Whether the core should go on with a request: does its reader lag, what it grants.

Owned by one stream. The core is told only of changes, and only of a request it has.
"""

from ..protocol.requests import Credit, Ended
from ..protocol.steps import TokenLogprobs
from .orders import OrderLine
from .ration import Ration


class Flow:
    """Pauses a request, and lets it run again.

    Args:
        request: The engine's number.
        core: Told so.
    """

    def __init__(self, request: int, core: OrderLine) -> None:
        self._request = request
        self._core = core
        self.ration: Ration | None = None
        self._lags = False
        self._open = False
        self._paused = False

    def open(self) -> None:
        """The core has the request."""
        self._open = True
        self._tell()

    def close(self) -> None:
        """The request has ended; nothing is to be told any more."""
        self._open = False

    def repeat(self) -> None:
        """Tell a new core, which has just been given the request."""
        if self._paused:
            self._core.put_urgent(Credit(self._request, False))

    def limit(self, credit: int) -> None:
        """Give the reader so many tokens, and more only as it grants them."""
        self.ration = Ration(credit)
        self._tell()

    def lag(self, lags: bool) -> None:
        """The reader lags too far, or has caught up."""
        self._lags = lags
        self._tell()

    def share(
        self,
        arrived: list[int],
        logprobs: list[TokenLogprobs],
        fresh: int,
        ended: Ended | None,
    ) -> tuple[int, Ended | None]:
        """Leave of what arrived only what the reader may have, as the ration does."""
        if self.ration is None:
            return fresh, ended
        shared = self.ration.share(arrived, logprobs, fresh, ended)
        self._tell()
        return shared

    @property
    def is_out(self) -> bool:
        """Whether all that was granted was given."""
        return self.ration is not None and not self.ration.credit

    @property
    def final(self) -> Ended | None:
        """The end, while it waits behind withheld tokens."""
        return None if self.ration is None else self.ration.final

    @property
    def withheld(self) -> tuple[int, ...]:
        """Ids that the core has made and the reader may not have yet."""
        return () if self.ration is None else tuple(self.ration.withheld)

    def _tell(self) -> None:
        paused = self._lags or self.is_out
        if paused is not self._paused and self._open:
            self._paused = paused
            self._core.put_urgent(Credit(self._request, not paused))
