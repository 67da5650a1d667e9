"""What a reader has granted: tokens beyond that wait here, and with them the end.

Owned by one stream. The core is paused when the grant is used up, a few steps late;
what it has made meanwhile is withheld, so that a grant is exact to the token.
"""

from ..protocol.requests import Ended, FinishReason
from ..protocol.steps import TokenLogprobs

MAX_CREDIT = 2**31 - 1
ENDS_AT_ONCE = (FinishReason.CANCELLED, FinishReason.ERROR)


class Ration:
    """Tokens granted and tokens withheld.

    Args:
        credit: Tokens granted at first.
    """

    def __init__(self, credit: int) -> None:
        self.credit = min(credit, MAX_CREDIT)
        self.withheld: list[int] = []
        self.final: Ended | None = None
        self._logprobs: list[TokenLogprobs] = []

    def grant(self, tokens: int) -> None:
        """Add to the grant; more than ``MAX_CREDIT`` cannot wait."""
        self.credit = min(self.credit + tokens, MAX_CREDIT)

    def share(
        self,
        arrived: list[int],
        logprobs: list[TokenLogprobs],
        fresh: int,
        ended: Ended | None,
    ) -> tuple[int, Ended | None]:
        """Leave of what arrived only what the reader may have.

        An end token is no text and costs nothing. Whoever cancels wants no more text.

        Args:
            arrived: Tokens, changed in place.
            logprobs: Theirs, or none; changed in place.
            fresh: How many of them, the last ones, are new.
            ended: The end, if it came.

        Returns:
            How many of the new ones are left, with those that were withheld before;
            and the end, if the reader may have that.
        """
        self._withhold(arrived, logprobs, fresh)
        final = self.final = self.final or ended
        if final is not None and final.reason in ENDS_AT_ONCE:
            self.withheld.clear()
            self._logprobs.clear()
            return 0, final
        count = min(self.credit, len(self.withheld))
        self.credit -= count
        if final is not None and final.end_token and len(self.withheld) == count + 1:
            count += 1
        arrived += self.withheld[:count]
        logprobs += self._logprobs[:count]
        del self.withheld[:count], self._logprobs[:count]
        return count, None if self.withheld else final

    def _withhold(
        self, arrived: list[int], logprobs: list[TokenLogprobs], fresh: int
    ) -> None:
        old = len(arrived) - fresh
        self.withheld += arrived[old:]
        del arrived[old:]
        # They come with every token of a stream, or with none.
        self._logprobs += logprobs[old:]
        del logprobs[old:]
