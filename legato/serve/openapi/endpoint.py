"""``GET /openapi.json``."""

import msgspec

from ..exchange import Exchange
from .description import describe
from .operations import OPERATIONS, PLAYGROUND

OPEN_PATHS = frozenset({"/openapi.json"})


class DescriptionEndpoint:
    """Serves the description of this server.

    Args:
        has_keys: The server asks for API keys.
        has_playground: It serves the playground.
    """

    def __init__(self, *, has_keys: bool, has_playground: bool = True) -> None:
        self._has_keys = has_keys
        self._operations = tuple(
            one for one in OPERATIONS if has_playground or one not in PLAYGROUND
        )
        self._written: dict[str, bytes] = {}

    async def __call__(self, exchange: Exchange) -> None:
        """Serve one request."""
        root: str = exchange.scope.get("root_path", "")
        await exchange.respond(200, self._document(root))

    def _document(self, root: str) -> bytes:
        if root not in self._written:
            described = describe(self._operations, root=root, has_keys=self._has_keys)
            # One mount point is usual; a client cannot choose it.
            self._written = {root: msgspec.json.encode(described)}
        return self._written[root]
