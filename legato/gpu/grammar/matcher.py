"""One answer under a grammar: what may come next, token by token."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLMatcher

MAX_WORDS = 200


class Matcher:
    """A grammar and how far an answer has come in it. Used by one thread at a time.

    Args:
        state: The library's, which this one owns.
    """

    def __init__(self, state: "LLMatcher") -> None:
        self._state = state

    @property
    def fault(self) -> str:
        """Why nothing can come next any more; "" while all is well."""
        if not self._state.is_error():
            return ""
        line = self._state.get_error().partition("\n")[0][:MAX_WORDS]
        return f"the grammar cannot go on: {line}"

    def mask(self) -> bytes:
        """Say which tokens may come next: bit i % 8 of byte i // 8 for token i.

        Whole 32-bit words, little-endian. After the end, and after a fault, only end
        tokens may.
        """
        return self._state.compute_bitmask()

    def advance(self, token: int) -> None:
        """Go on past a token that was chosen.

        One that comes after the end is ignored: a step in flight had it sampled before
        the end was known.
        """
        if not self._state.is_stopped():
            self._state.consume_token(token)
