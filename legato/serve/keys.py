"""Who may come in: API keys, compared in constant time and never written anywhere."""

import hashlib
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
        self._tenants = tuple(tenant_of(key) for key in self._keys)

    def __bool__(self) -> bool:
        """Whether a key is needed at all."""
        return bool(self._keys)

    def check(self, authorization: str | None) -> str:
        """Refuse a request without a key that fits.

        Returns:
            The tenant whose key it is; "" where none is needed.

        Raises:
            Refusal: 401.
        """
        if not self._keys:
            return ""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise Refusal(
                401,
                "missing_api_key",
                "an API key is needed: send 'Authorization: Bearer KEY'",
            )
        return self.check_key(given)

    def check_key(self, given: str) -> str:
        """Refuse a key that does not fit.

        Returns:
            The tenant whose key it is; "" where none is needed.

        Raises:
            Refusal: 401.
        """
        if not self._keys:
            return ""
        # Every key is compared, so that the time tells nothing about which one fits.
        fits = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        if not any(fits):
            raise Refusal(401, "invalid_api_key", "this API key is not known here")
        return self._tenants[fits.index(True)]


def tenant_of(key: bytes) -> str:
    """Name a key's owner without telling the key: the same after every restart."""
    return f"key-{hashlib.sha256(key).hexdigest()[:12]}"
