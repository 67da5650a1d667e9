"""Which web pages may speak to this server.

A browser lets any page open a WebSocket to, or post to, a server on the user's own
machine; it only says in ``Origin`` which page that was. Programs send no ``Origin`` and
are let in. That a page's origin equals the ``Host`` it asked for proves nothing: a name
can be rebound to 127.0.0.1 after the page was loaded. So only the list counts, and the
names that always mean this machine.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

LOCALHOST = frozenset({"localhost", "127.0.0.1", "::1"})

CORS_METHODS = b"GET, POST, OPTIONS"
CORS_MAX_AGE_S = b"600"


class OriginList:
    """The pages that may.

    Args:
        allowed: Origins (scheme, host, port) as browsers send them, or ``*``.
        allow_localhost: Any page of this machine.
    """

    def __init__(self, allowed: Iterable[str], *, allow_localhost: bool = True) -> None:
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)
        self._allow_localhost = allow_localhost

    def admits(self, origin: str | None) -> bool:
        """Say whether a request with this ``Origin`` may come in."""
        if origin is None or "*" in self._allowed:
            return True
        if origin.lower() in self._allowed:
            return True
        return self._allow_localhost and is_localhost(origin)


def is_localhost(origin: str) -> bool:
    """Say whether an origin is a page of this machine."""
    try:
        parts = urlsplit(origin)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or parts.username is not None:
        return False
    return host in LOCALHOST or host.endswith(".localhost")


def cors_headers(origin: str | None) -> list[tuple[bytes, bytes]]:
    """Headers that let an admitted page read the answer."""
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"vary", b"origin"),
    ]


def preflight_headers(requested: bytes) -> list[tuple[bytes, bytes]]:
    """Headers that answer a browser's question before the real request.

    Args:
        requested: The header names it asks for.
    """
    return [
        (b"access-control-allow-methods", CORS_METHODS),
        (b"access-control-allow-headers", requested or b"content-type"),
        (b"access-control-max-age", CORS_MAX_AGE_S),
    ]
