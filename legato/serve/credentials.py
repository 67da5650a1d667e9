"""The API key that a request or handshake brings, wherever it stands.

Browsers cannot set headers on a socket; they send a key as a subprotocol, which is
never chosen and never echoed.
"""

from collections.abc import Mapping

from starlette.types import Scope

KEY_PROTOCOL = "openai-insecure-api-key."


def authorization_of(scope: Scope, headers: Mapping[str, str]) -> str | None:
    """What stands for ``Authorization``: the header itself, or a key subprotocol."""
    given = headers.get("authorization")
    if given is not None:
        return given
    for offered in scope.get("subprotocols", []):
        if offered.startswith(KEY_PROTOCOL):
            return f"Bearer {offered.removeprefix(KEY_PROTOCOL)}"
    return None
