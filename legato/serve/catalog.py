"""``GET /v1/models``: the one model there is."""

import time

import msgspec

from .backend import Backend
from .exchange import Exchange
from .judgement import check_model


class Catalog:
    """Lists the engine's model.

    Args:
        engine: Whose model.
    """

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._created_s = int(time.time())

    async def list(self, exchange: Exchange) -> None:
        """``GET /v1/models``."""
        models = {"object": "list", "data": [self._entry()]}
        await exchange.respond(200, msgspec.json.encode(models))

    async def show(self, exchange: Exchange, name: str) -> None:
        """``GET /v1/models/{name}``.

        Raises:
            Refusal: 404.
        """
        check_model(name, self._engine.name)
        await exchange.respond(200, msgspec.json.encode(self._entry()))

    def _entry(self) -> dict[str, object]:
        entry: dict[str, object] = {
            "id": self._engine.name,
            "object": "model",
            "created": self._created_s,
            "owned_by": "legato",
        }
        if self._engine.state == "ready":
            entry["context_window"] = self._engine.max_context
        return entry
