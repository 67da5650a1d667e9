"""``GET /openapi.json``."""

import msgspec

from ..exchange import Exchange
from .description import describe
from .operations import OPERATIONS

OPEN_PATHS = frozenset({"/openapi.json"})


class DescriptionEndpoint:
    """Serves the description of this server.

    Args:
        has_keys: The server asks for API keys.
    """

    def __init__(self, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._written: dict[str, bytes] = {}

    async def __call__(self, exchange: Exchange) -> None:
        """Serve one request."""
        root: str = exchange.scope.get("root_path", "")
        await exchange.respond(200, self._document(root))

    def _document(self, root: str) -> bytes:
        if root not in self._written:
            described = describe(OPERATIONS, root=root, has_keys=self._has_keys)
            # One mount point is usual; a client cannot choose it.
            self._written = {root: msgspec.json.encode(described)}
        return self._written[root]
