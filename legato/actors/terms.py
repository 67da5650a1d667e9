"""What a reader changes of its request while it is under way.

Owned by one stream. A core that comes after this one must be told the same, so the
request itself is changed as well; what comes before there is one waits.
"""

from msgspec import structs

from ..protocol.amend import Amend
from ..protocol.requests import Admit
from .orders import OrderLine


class Terms:
    """Changes of one request.

    ``room`` is the most tokens it can have; set before ``open``.

    Args:
        core: Told of them.
    """

    def __init__(self, core: OrderLine) -> None:
        self.room = 0
        self._core = core
        self._waiting: Amend | None = None

    def open(self, admit: Admit) -> Admit:
        """Apply what came before the core had the request; it has it now."""
        waiting, self._waiting = self._waiting, None
        return admit if waiting is None else self._apply(admit, waiting)

    def amend(self, admit: Admit | None, amend: Amend) -> Admit | None:
        """Change the request; return it as it is now."""
        if admit is None:
            before = self._waiting
            self._waiting = amend if before is None else before.merge(amend)
            return None
        return self._apply(admit, amend)

    def _apply(self, admit: Admit, amend: Amend) -> Admit:
        if amend.max_tokens is not None:
            most = min(amend.max_tokens, self.room)
            amend = structs.replace(amend, max_tokens=most)
        self._core.put_urgent(amend)
        return amend.applied(admit)
