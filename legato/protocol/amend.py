"""What a reader may change of a request that is under way."""

import msgspec

from .requests import Admit


class Amend(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Change a request that is under way. Unknown or ended requests are ignored.

    Args:
        request: Which.
        max_tokens: Most tokens to generate from now on, those already generated
            included, cut to what fits; None leaves it.
        priority: Lower runs earlier; None leaves it.
    """

    request: int
    max_tokens: int | None = None
    priority: int | None = None

    def merge(self, later: "Amend") -> "Amend":
        """Join a later one onto this one."""
        max_tokens, priority = later.max_tokens, later.priority
        return Amend(
            self.request,
            self.max_tokens if max_tokens is None else max_tokens,
            self.priority if priority is None else priority,
        )

    def applied(self, admit: Admit) -> Admit:
        """The request as it is with this."""
        max_tokens, priority = self.max_tokens, self.priority
        return msgspec.structs.replace(
            admit,
            max_tokens=admit.max_tokens if max_tokens is None else max_tokens,
            priority=admit.priority if priority is None else priority,
        )
