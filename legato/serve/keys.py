"""Who may come in: API keys, compared in constant time and never written anywhere."""

import hmac
from collections.abc import Iterable

from ..protocol.openai.refusal import Refusal


class KeyRing:
    """The keys that open this server; none leaves it open.

    Args:
        keys: Printable ASCII.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = tuple(key.encode() for key in keys)

    def check(self, authorization: str | None) -> None:
        """Refuse a request without a key that fits.

        Raises:
            Refusal: 401.
        """
        if not self._keys:
            return
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise Refusal(
                401,
                "missing_api_key",
                "an API key is needed: send 'Authorization: Bearer KEY'",
            )
        # Every key is compared, so that the time tells nothing about which one fits.
        fits = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        if not any(fits):
            raise Refusal(401, "invalid_api_key", "this API key is not known here")
