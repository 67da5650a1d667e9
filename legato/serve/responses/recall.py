"""What a client may go on from: what the store keeps, and what its socket remembers.

A socket remembers the latest response of each of its lanes, stored or not, while it is
open. Owned by one connection.
"""

from collections import OrderedDict

from ...protocol.openai.refusal import Refusal
from .store import ResponseStore, Stored

# Lanes whose latest response is remembered.
MAX_REMEMBERED = 64


class Recall:
    """Earlier responses of one tenant.

    Args:
        store: Shared by all.
        tenant: Whose.
    """

    def __init__(self, store: ResponseStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._latest: OrderedDict[str | None, Stored] = OrderedDict()

    async def find(self, name: str) -> Stored:
        """Return the response to go on from.

        Raises:
            Refusal: It is not there, or another tenant's.
        """
        for stored in self._latest.values():
            if stored.name == name:
                return stored
        stored = await self._store.get(name, self._tenant)
        if stored is None:
            raise Refusal(
                400,
                "previous_response_not_found",
                f"previous response {name!r} is not kept here; send the whole "
                "conversation as input, without previous_response_id",
                param="previous_response_id",
            )
        return stored

    def keep(self, lane: str | None, stored: Stored, *, for_all: bool) -> None:
        """Remember a lane's latest response; in the store too, if it is for all."""
        self._latest[lane] = stored
        self._latest.move_to_end(lane)
        if len(self._latest) > MAX_REMEMBERED:
            self._latest.popitem(last=False)
        if for_all:
            self.put(stored)

    def put(self, stored: Stored) -> None:
        """Keep a response for those who ask for it."""
        self._store.put(stored)

    def forget(self, name: str) -> None:
        """A turn from this response has failed: it is remembered no more."""
        for lane, stored in list(self._latest.items()):
            if stored.name == name:
                del self._latest[lane]
